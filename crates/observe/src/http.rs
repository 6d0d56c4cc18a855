//! Answers over HTTP/1.1, to those who may look.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the live page |
//! | `/events` | snapshots as server-sent events, two a second |
//! | `/metrics` | metrics for Prometheus |
//! | `/api/status` | one snapshot as JSON |
//!
//! Only GET and HEAD are answered, and no answer changes anything. Bounded:
//! connections at once, and the time for the headers of a request.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tracing::debug;

use crate::access::{Access, Denied};
use crate::body::Answer;
use crate::observer::Observer;
use crate::{metrics, page};

/// Connections at once; further ones wait in the kernel.
pub const CONNECTIONS_MAX: usize = 32;
/// How long the headers of a request may take.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a request's headers; far above what browsers send.
const HEADERS_LEN_MAX: usize = 16 << 10;
/// Pause after accepting failed, for want of file descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// Where those who look come in.
trait Door {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Door for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Answers over TCP until it is dropped.
pub async fn serve_tcp(listener: TcpListener, observer: Observer, access: Access) {
    serve(listener, observer, access).await;
}

/// Answers over a Unix socket until it is dropped; whoever may open it may look.
pub async fn serve_unix(listener: UnixListener, observer: Observer) {
    serve(listener, observer, Access::open()).await;
}

async fn serve(door: impl Door, observer: Observer, access: Access) {
    let access = Arc::new(access);
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = permits.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let stream = match door.next().await {
            Ok(stream) => stream,
            Err(error) => {
                debug!(%error, "nobody could be let in to look");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (observer, access) = (observer.clone(), access.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &observer, &access);
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS_TIMEOUT)
                .max_buf_size(HEADERS_LEN_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                debug!(%error, "somebody who looked left early");
            }
            drop(permit);
        });
    }
}

fn answer(request: &Request<Incoming>, observer: &Observer, access: &Access) -> Response<Answer> {
    let text = |name: HeaderName| request.headers().get(name)?.to_str().ok();
    let judged = access.judge(text(header::HOST), text(header::AUTHORIZATION));
    let is_head = request.method() == Method::HEAD;
    let mut response = match judged {
        Err(Denied::Host) => plain(
            StatusCode::MISDIRECTED_REQUEST,
            "This name is not known here: use the address, or name it with --metrics-host.\n",
        ),
        Err(Denied::Token) => {
            let mut response = plain(
                StatusCode::UNAUTHORIZED,
                "A token is needed: the one in the file that --metrics-token names, as password.\n",
            );
            let challenge = HeaderValue::from_static("Basic realm=\"ctcp\", charset=\"UTF-8\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
        Ok(()) if !is_head && request.method() != Method::GET => {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "This is read-only.\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
        Ok(()) => route(request.uri().path(), observer, is_head),
    };
    if is_head {
        *response.body_mut() = Answer::Whole(None);
    }
    harden(&mut response);
    response
}

fn route(path: &str, observer: &Observer, is_head: bool) -> Response<Answer> {
    match path {
        "/" => {
            let page = page::page();
            let mut response = typed(
                "text/html; charset=utf-8",
                Answer::whole(page.html.as_str()),
            );
            if let Ok(policy) = HeaderValue::from_str(&page.policy) {
                response
                    .headers_mut()
                    .insert(header::CONTENT_SECURITY_POLICY, policy);
            }
            response
        }
        "/metrics" => typed(
            metrics::CONTENT_TYPE,
            Answer::whole(metrics::render(&observer.snapshot())),
        ),
        "/api/status" => {
            let snapshot = serde_json::to_vec(&observer.snapshot()).unwrap_or_default();
            typed("application/json", Answer::whole(snapshot))
        }
        // No clock is started for whoever wants the headers only.
        "/events" if is_head => typed("text/event-stream", Answer::Whole(None)),
        "/events" => typed("text/event-stream", Answer::events(observer.clone())),
        _ => plain(
            StatusCode::NOT_FOUND,
            "Here are /, /metrics, /events and /api/status.\n",
        ),
    }
}

fn typed(content_type: &'static str, answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Answer> {
    let mut response = typed("text/plain; charset=utf-8", Answer::whole(text));
    *response.status_mut() = status;
    response
}

/// What every answer says: nothing is kept, guessed, framed or told on.
fn harden(response: &mut Response<Answer>) {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
