// No inner doc comment, because the page about other crates includes this file in a program.
//
// A gRPC service and its client, as tonic's generator writes them for
//
// service Words {
//   rpc Upper(Word) returns (Word);
//   rpc Letters(Word) returns (stream Word);
//   rpc Echo(stream Word) returns (stream Word);
// }
// with the handlers that the examples have. A `Word` is a `String` here, which prost writes as the
// message `google.protobuf.StringValue`.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ecru::Source;
use ecru::channel::{self, Receiver};
use ecru_hyper::{DirectError, in_task};
use futures_util::stream::{self, Stream, StreamExt};
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, Bytes, Service, StdError};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// The messages of a response that is a stream.
pub(crate) type Answers = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

/// The methods, as the generated trait `Words` has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words;

/// Runs the body of a method in a task, where it may wait. tonic's own server calls methods on tokio's
/// thread, which runs no tasks: there, the body must not wait.
async fn method<T: Send + 'static>(
    body: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<Response<T>, Status> {
    if tokio::runtime::Handle::try_current().is_ok() {
        return body().map(Response::new);
    }
    match in_task(body).await {
        Ok(answer) => Ok(Response::new(answer)),
        Err(DirectError::Handler(status)) => Err(status),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

/// Makes a stream of what a task sends.
pub(crate) fn items<T: Send + 'static>(
    receiver: Receiver<T>,
) -> impl Stream<Item = T> + Send + Unpin {
    let mut next = receiver.to_future();
    stream::poll_fn(move |cx| Pin::new(&mut next).poll(cx).map(Result::ok))
}

impl Words {
    async fn upper(&self, request: Request<String>) -> Result<Response<String>, Status> {
        method(move || {
            let word = request.into_inner();
            match word.as_str() {
                "" => Err(Status::invalid_argument("no word")),
                "slow" => {
                    ecru::sleep(std::time::Duration::from_secs(3600)).map_err(cancelled)?;
                    Ok(word)
                }
                "panic" => std::panic::resume_unwind(Box::new("a panic of a method")),
                word => Ok(word.to_uppercase()),
            }
        })
        .await
    }

    async fn letters(&self, request: Request<String>) -> Result<Response<Answers>, Status> {
        let (sender, receiver) = channel::bounded(1);
        ecru::spawn(move || {
            for letter in request.into_inner().chars().cycle() {
                if sender.send(Ok(letter.to_string())).is_err() {
                    break; // The client has gone.
                }
            }
        });
        Ok(Response::new(Box::pin(items(receiver))))
    }

    async fn echo(&self, request: Request<Streaming<String>>) -> Result<Response<Answers>, Status> {
        let mut words = request.into_inner();
        let (sender, receiver) = channel::bounded(1);
        ecru::spawn(move || {
            while let Ok(Some(word)) = ecru::block_on(words.next()) {
                if sender.send(word).is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(Box::pin(items(receiver))))
    }
}

fn cancelled(_: ecru::Cancelled) -> Status {
    Status::cancelled("the call was given up")
}

/// The generated `WordsServer`.
#[derive(Clone, Debug)]
pub(crate) struct WordsServer(Arc<Words>);

impl WordsServer {
    /// Makes a service of the methods.
    #[must_use]
    pub(crate) fn new(words: Words) -> WordsServer {
        WordsServer(Arc::new(words))
    }
}

impl<B> Service<http::Request<B>> for WordsServer
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let words = Arc::clone(&self.0);
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<String, String>::default());
            Ok(match request.uri().path() {
                "/words.Words/Upper" => grpc.unary(Upper(words), request).await,
                "/words.Words/Letters" => grpc.server_streaming(Letters(words), request).await,
                "/words.Words/Echo" => grpc.streaming(Echo(words), request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

macro_rules! methods {
    ($($name:ident: $request:ty => $response:ty, $method:ident;)+) => {$(
        struct $name(Arc<Words>);

        impl Service<Request<$request>> for $name {
            type Response = Response<$response>;
            type Error = Status;
            type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request<$request>) -> Self::Future {
                let words = Arc::clone(&self.0);
                Box::pin(async move { words.$method(request).await })
            }
        }
    )+};
}

methods! {
    Upper: String => String, upper;
    Letters: String => Answers, letters;
    Echo: Streaming<String> => Answers, echo;
}

impl tonic::server::NamedService for WordsServer {
    const NAME: &'static str = "words.Words";
}

/// The generated `WordsClient`.
#[derive(Clone, Debug)]
pub(crate) struct WordsClient<T>(tonic::client::Grpc<T>);

impl<T> WordsClient<T>
where
    T: tonic::client::GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    /// Makes a client of what sends requests, for the server with this URL.
    pub(crate) fn with_origin(inner: T, origin: http::Uri) -> WordsClient<T> {
        WordsClient(tonic::client::Grpc::with_origin(inner, origin))
    }

    async fn ready(&mut self) -> Result<(), Status> {
        let ready = self.0.ready().await;
        ready
            .map_err(|error| Status::unknown(format!("the service is not ready: {}", error.into())))
    }

    /// One word for another.
    pub(crate) async fn upper(&mut self, word: String) -> Result<Response<String>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static("/words.Words/Upper");
        self.0.unary(Request::new(word), path, ProstCodec::<String, String>::default()).await
    }

    /// The letters of a word, again and again.
    pub(crate) async fn letters(
        &mut self,
        word: String,
    ) -> Result<Response<Streaming<String>>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static("/words.Words/Letters");
        let codec = ProstCodec::<String, String>::default();
        self.0.server_streaming(Request::new(word), path, codec).await
    }

    /// Each word again.
    pub(crate) async fn echo(
        &mut self,
        words: impl Stream<Item = String> + Send + 'static,
    ) -> Result<Response<Streaming<String>>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static("/words.Words/Echo");
        let codec = ProstCodec::<String, String>::default();
        self.0.streaming(Request::new(words), path, codec).await
    }
}
