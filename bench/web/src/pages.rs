//! What both sides answer.

use std::sync::Arc;

use axum::extract::Json;
use axum::routing::{get, post};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde::{Deserialize, Serialize};

/// The short page.
pub(crate) const PAGE: &str = "Hello, world!";

#[derive(Debug, Deserialize, Serialize)]
struct Order {
    id: u64,
    name: String,
    amounts: Vec<f64>,
}

async fn order(Json(mut order): Json<Order>) -> Json<Order> {
    order.id += 1;
    order.amounts.push(0.5);
    Json(order)
}

/// axum's router.
pub(crate) fn router() -> axum::Router {
    axum::Router::new().route("/", get(async || PAGE)).route("/order", post(order))
}

/// Settings with a new certificate for `localhost`.
pub(crate) fn tls() -> Arc<ServerConfig> {
    let names = ["localhost", "127.0.0.1"].map(String::from);
    let made = rcgen::generate_simple_self_signed(names).expect("plain names");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a fresh key");
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .expect("ring knows them")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key);
    Arc::new(config.expect("the key is the certificate's"))
}
