//! Paths, headers and status codes: from an HTTP request to the answer `stream` paces.
//!
//! A request's body is always read in full, also when the answer is an error, so that a
//! connection stays usable and a client is never cut off while it writes.

use super::answer::{self, Voice};
use super::fault;
use super::pacer::{Clock, Pacer};
use super::request::{Api, Asked};
use super::stamps::{Ended, Line, Sink, Stamp};
use super::stream::{self, Answer, Ending, InputCount, Script};
use super::{FaultKind, MAX_BODY_BYTES, MockConfig, MockError};
use crate::domain::count::CountTokens;
use crate::domain::time::Nanos;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// By this header a report knows that its numbers are those of a mock.
const SERVER: HeaderValue = HeaderValue::from_static("tracewright-mock");
const REQUEST_ID: &str = "x-request-id";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// The state that all requests share.
pub(super) struct Mock {
    pub(super) config: MockConfig,
    counter: Option<Arc<dyn CountTokens>>,
    pacer: Arc<Pacer>,
    sink: Option<Arc<Sink>>,
    requests: AtomicU64,
}

impl fmt::Debug for Mock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mock").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Mock {
    /// Checks the configuration and creates the stamps file. Must be called inside the runtime.
    pub(super) fn new(
        config: MockConfig,
        counter: Option<Arc<dyn CountTokens>>,
    ) -> Result<Self, MockError> {
        config.validate()?;
        let sink = match &config.stamps {
            Some(path) => Some(Sink::create(path, config.overwrite)?),
            None => None,
        };
        let pacer = Pacer::new(Clock::start())
            .map_err(|source| MockError::System { what: "create a timer", source })?;
        Ok(Self { config, counter, pacer, sink, requests: AtomicU64::new(0) })
    }

    pub(super) fn sink(&self) -> Option<Arc<Sink>> {
        self.sink.clone()
    }

    pub(super) fn pacer(&self) -> Arc<Pacer> {
        Arc::clone(&self.pacer)
    }

    fn now(&self) -> Nanos {
        self.pacer.clock().now()
    }

    /// Numbers a request and notes when it came.
    fn begin(&self, request: &Request) -> Stamp {
        let headers_ns = self.now().0;
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
        let line = Line {
            request: number,
            x_request_id: given.map_or_else(|| format!("mock-{number}"), str::to_owned),
            origin_monotonic_ns: self.pacer.clock().origin_ns(),
            stream: None,
            fault: None,
            status: None,
            stated_ttft_ns: None,
            stated_tpot_ns: self.config.tpot.0,
            headers_ns,
            body_ns: None,
            role_ns: None,
            first_text_ns: None,
            last_text_ns: None,
            done_ns: None,
            planned_tokens: None,
            sent_tokens: 0,
            ended: Ended::Dropped,
        };
        Stamp::new(line, self.sink.clone())
    }

    /// Answers with an error at once.
    fn refuse(&self, mut stamp: Stamp, status: StatusCode, message: &str) -> Response {
        let fault = stamp.line.fault.is_some();
        stamp.line.status = Some(status.as_u16());
        stamp.end(self.now(), if fault { Ended::Fault } else { Ended::Refused });
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::INTERNAL_SERVER_ERROR => "internal_server_error",
            _ => "invalid_request_error",
        };
        let body = answer::error(message, kind, Some(status.as_u16()));
        let mut response = response(status, JSON, &stamp.line.x_request_id, body.into());
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    /// Writes down what is sent and when, counted from the headers or, held back, from later.
    fn script(&self, api: Api, asked: &Asked, stamp: &Stamp) -> Script {
        let start = match stamp.line.fault {
            Some(FaultKind::SlowHeaders) => {
                Nanos(stamp.line.headers_ns).plus(self.config.slow_headers)
            }
            _ => Nanos(stamp.line.headers_ns),
        };
        let planned = asked.max_tokens.unwrap_or(self.config.default_output_tokens);
        let reason = if asked.max_tokens.is_some() { "length" } else { "stop" };
        let (tokens, ending) = match stamp.line.fault {
            Some(FaultKind::StreamError) => (planned.div_ceil(2), Ending::Error),
            Some(FaultKind::Truncated) => (planned.div_ceil(2), Ending::Cut),
            Some(FaultKind::Empty) => (0, Ending::Finish("stop")),
            _ => (planned, Ending::Finish(reason)),
        };
        Script {
            role: (api == Api::Chat).then(|| start.plus(self.config.role_delay)),
            first_text: start.plus(self.config.ttft),
            tpot: self.config.tpot,
            tokens,
            ending,
        }
    }

    /// Starts counting the prompt beside the event loop, if the answer tells it.
    fn count(&self, asked: Asked) -> Option<InputCount> {
        let told = asked.include_usage || !asked.stream;
        let counter = self.counter.clone();
        told.then(|| tokio::task::spawn_blocking(move || asked.input.tokens(counter.as_deref())))
    }
}

/// Returns the paths the mock knows; any other gets a 404 in OpenAI's shape.
pub(super) fn routes(mock: Arc<Mock>) -> Router {
    let chat = |State(mock): State<Arc<Mock>>, request: Request| generate(mock, Api::Chat, request);
    let completions =
        |State(mock): State<Arc<Mock>>, request: Request| generate(mock, Api::Completions, request);
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completions))
        .route("/v1/models", get(async |State(mock): State<Arc<Mock>>| models(&mock)))
        .route("/health", get(async || "ok\n"))
        .fallback(|request: Request| unknown(StatusCode::NOT_FOUND, request))
        .method_not_allowed_fallback(|request: Request| {
            unknown(StatusCode::METHOD_NOT_ALLOWED, request)
        })
        .layer(axum::middleware::map_response(async |mut response: Response| {
            response.headers_mut().insert(header::SERVER, SERVER);
            response
        }))
        .with_state(mock)
}

async fn generate(mock: Arc<Mock>, api: Api, request: Request) -> Response {
    let mut stamp = mock.begin(&request);
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    stamp.line.body_ns = Some(mock.now().0);
    let Ok(body) = body else {
        let message = format!("body is incomplete or above {MAX_BODY_BYTES} bytes");
        return mock.refuse(stamp, StatusCode::PAYLOAD_TOO_LARGE, &message);
    };
    let asked = match Asked::read(api, &body) {
        Ok(asked) => asked,
        Err(message) => return mock.refuse(stamp, StatusCode::BAD_REQUEST, &message),
    };
    drop(body);
    stamp.line.stream = Some(asked.stream);
    stamp.line.fault = fault::of_request(&mock.config.faults, mock.config.seed, stamp.line.request);
    match stamp.line.fault {
        Some(FaultKind::Http500) => {
            return mock.refuse(stamp, StatusCode::INTERNAL_SERVER_ERROR, "the engine died");
        }
        Some(FaultKind::Http429) => {
            return mock.refuse(stamp, StatusCode::TOO_MANY_REQUESTS, "too many requests");
        }
        _ => {}
    }
    answer_to(&mock, api, asked, stamp).await
}

async fn answer_to(mock: &Mock, api: Api, asked: Asked, mut stamp: Stamp) -> Response {
    let script = mock.script(api, &asked, &stamp);
    let line = &mut stamp.line;
    line.status = Some(StatusCode::OK.as_u16());
    line.planned_tokens = Some(asked.max_tokens.unwrap_or(mock.config.default_output_tokens));
    line.stated_ttft_ns =
        (script.tokens > 0).then(|| script.first_text.0.saturating_sub(line.headers_ns));
    let id = line.x_request_id.clone();
    let slow = line.fault == Some(FaultKind::SlowHeaders);
    let headers_due = Nanos(line.headers_ns).plus(mock.config.slow_headers);
    let model = asked.model.clone().unwrap_or_else(|| mock.config.model.clone());
    let voice = Voice::new(api, line.request, &model, Clock::unix_seconds());
    let streamed = asked.stream;
    let input = mock.count(asked);
    let answer = Answer { pacer: mock.pacer(), script, voice, input, stamp };
    if !streamed {
        return response(StatusCode::OK, JSON, &id, answer.whole().await);
    }
    if slow && mock.pacer.sleep_until(headers_due).await.is_err() {
        // The same error ends the mock, see `Pacer::run`.
        return std::future::pending().await;
    }
    let mut response = response(StatusCode::OK, EVENTS, &id, stream::events(answer));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn models(mock: &Mock) -> Response {
    let model = serde_json::json!({
        "id": mock.config.model, "object": "model", "created": 0, "owned_by": "tracewright",
    });
    let list = serde_json::json!({"object": "list", "data": [model]});
    plain(StatusCode::OK, list.to_string().into())
}

async fn unknown(status: StatusCode, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // Read, so that the connection stays usable; too large a body closes it, which is as well.
    drop(axum::body::to_bytes(body, MAX_BODY_BYTES).await);
    let message = format!("no such endpoint here: {} {}", parts.method, parts.uri.path());
    plain(status, answer::error(&message, "invalid_request_error", Some(status.as_u16())).into())
}

fn plain(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn response(status: StatusCode, kind: HeaderValue, id: &str, body: Body) -> Response {
    let mut response = plain(status, body);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
