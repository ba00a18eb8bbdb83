//! What both sides answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use axum::extract::Json;
use axum::routing::{get, post};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Config, Row};

use crate::Result;

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

/// How many connections each side has to the database.
pub(crate) const CLIENTS: usize = 8;
/// The environment variable with the database's URL.
pub(crate) const DATABASE: &str = "ECRU_BENCH_DATABASE";
/// How many goods there are, with the keys from 0 on.
pub(crate) const GOODS: i32 = 1000;
pub(crate) const QUERY: &str = "SELECT id, name, price FROM goods WHERE id = $1";

#[derive(Debug, Serialize)]
pub(crate) struct Good {
    id: i32,
    name: String,
    price: i64,
}

impl Good {
    pub(crate) fn of(row: &Row) -> Good {
        Good { id: row.get(0), name: row.get(1), price: row.get(2) }
    }
}

/// Returns the keys in turn.
pub(crate) fn next_key() -> i32 {
    static NEXT: AtomicI32 = AtomicI32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).rem_euclid(GOODS)
}

pub(crate) fn database() -> Result<Config> {
    let url = std::env::var(DATABASE).map_err(|_| format!("{DATABASE} is not set"))?;
    Ok(url.parse()?)
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
