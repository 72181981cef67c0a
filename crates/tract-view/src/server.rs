//! The server. It listens only on loopback, admits only requests with the token of its URL, and is
//! read-only unless decisions are allowed.

mod reports;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use maud::{Markup, html};
use serde::Deserialize;
use tokio::net::TcpListener;
use tract_core::{Clock, RefName, SystemClock};
use tract_engine::{Repo, SessionQuery};
use tract_providers::{Form, FormOptions, compile_form};

use crate::error::{Error, Result};
use crate::load;
use crate::pages::{
    self, Access, Compared, SCRIPT, STYLE, SessionFilter, SessionOrder, TranscriptOptions,
};
use crate::text::query;
use crate::times;

/// Maximum characters of each text on a page.
const MOST: usize = 20_000;

/// The content security policy of a page. It allows its own style and script, recorded images, and
/// requests to this server.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A listening viewer.
#[derive(Debug)]
pub struct Viewer {
    listener: TcpListener,
    shared: Shared,
    url: String,
}

#[derive(Debug)]
struct Shared {
    repo: Repo,
    token: String,
    /// The allowed values of the `Host` header.
    hosts: [String; 2],
    /// Whether pending approvals may be decided here.
    decides: bool,
}

impl Shared {
    fn page(&self, title: &str, live: Option<&str>, main: &Markup) -> Html<String> {
        let access = if self.decides { Access::Decisions } else { Access::ReadOnly };
        Html(pages::page(title, live, Some(access), main).into_string())
    }
}

type Served = State<Arc<Shared>>;
type Page = Result<Html<String>>;

impl Viewer {
    /// Listens on loopback; port 0 selects a free port.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is in use.
    pub async fn bind(repo: Repo, port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let failed = |source| Error::Listen { address: address.to_string(), source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let url = format!("http://127.0.0.1:{port}/?token={token}");
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Ok(Self { listener, shared: Shared { repo, token, hosts, decides: false }, url })
    }

    /// Sets whether pending approvals can be decided on their page. Nothing else can be changed
    /// through the viewer.
    #[must_use]
    pub fn allow_decisions(mut self, allow: bool) -> Self {
        self.shared.decides = allow;
        self
    }

    /// Returns the URL that opens the viewer. Anyone who has it can read the recordings.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until `stop` completes.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn run(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let shared = Arc::new(self.shared);
        let mut router = Router::new()
            .route("/", get(home))
            .route("/transcript", get(transcript))
            .route("/compare", get(compare))
            .route("/tools", get(tools))
            .route("/text", get(text))
            .route("/request", get(request))
            .route("/requests", get(reports::requests))
            .route("/usage", get(reports::usage))
            .route("/cost", get(reports::cost))
            .route("/cache", get(reports::cache))
            .route("/pending", get(reports::pending))
            .route("/search", get(reports::search))
            .route("/window", get(reports::window))
            .route("/history", get(reports::history))
            .route("/live", get(live))
            .route("/style.css", get(async || asset("text/css; charset=utf-8", STYLE)))
            .route("/script.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)));
        if shared.decides {
            router = router.route("/decide", post(reports::decide));
        }
        let router = router
            .fallback(async || Error::NotFound("there is no such page".to_owned()).into_response())
            .layer(from_fn_with_state(Arc::clone(&shared), guard))
            .with_state(shared);
        // Browsers keep connections open, so the server does not wait for their end.
        tokio::select! {
            served = axum::serve(self.listener, router).into_future() => Ok(served?),
            () = stop => Ok(()),
        }
    }
}

/// Admits only requests that have the token, were made to one of our host names (another name that
/// resolves here is a DNS rebinding attack), and come from our own pages.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    if !shared.hosts.iter().any(|own| own == host) {
        return refuse(StatusCode::FORBIDDEN, "this name is not the viewer's");
    }
    if let Some(origin) = text(header::ORIGIN)
        && origin.strip_prefix("http://") != Some(host)
    {
        return refuse(StatusCode::FORBIDDEN, "only pages of the viewer may ask");
    }
    // A form on another site cannot send our origin, and only forms change something.
    if request.method() == Method::POST && text(header::ORIGIN).is_none() {
        return refuse(StatusCode::FORBIDDEN, "only pages of the viewer may decide");
    }
    let given = request.uri().query().unwrap_or_default().split('&');
    let given = given.filter_map(|pair| pair.strip_prefix("token=")).next();
    if request.uri().path() == "/" && given.is_some_and(|given| equal(given, &shared.token)) {
        let cookie =
            format!("{}={}; HttpOnly; SameSite=Lax; Path=/", cookie_name(host), shared.token);
        let mut response = StatusCode::SEE_OTHER.into_response();
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        return guarded(response);
    }
    let name = cookie_name(host);
    let cookies = text(header::COOKIE).unwrap_or_default().split(';');
    let mut tokens = cookies.filter_map(|cookie| cookie.trim().split_once('='));
    if !tokens.any(|(own, token)| own == name && equal(token, &shared.token)) {
        return refuse(StatusCode::UNAUTHORIZED, "open the url that `tract view` printed");
    }
    guarded(next.run(request).await)
}

/// Cookies are shared by all ports, so the port is in the name: viewers on two ports must not
/// replace each other's cookie.
fn cookie_name(host: &str) -> String {
    format!("tract-view-{}", host.rsplit(':').next().unwrap_or_default())
}

/// Compares texts in time that does not depend on the position of the first difference.
fn equal(left: &str, right: &str) -> bool {
    left.len() == right.len()
        && left.bytes().zip(right.bytes()).fold(0, |differ, (l, r)| differ | (l ^ r)) == 0
}

fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Without a referrer policy that allows it, browsers send no origin with a form.
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refuse(status: StatusCode, why: &'static str) -> Response {
    guarded((status, why).into_response())
}

fn asset(media_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, media_type)], text)
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Engine(error) if error.code().starts_with("unknown") => StatusCode::NOT_FOUND,
            Self::Engine(tract_engine::Error::Store(_)) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let what = self.to_string();
        let main = html! {
            h1 { (status.canonical_reason().unwrap_or("error")) }
            p { (crate::text::visible(&what)) }
            p { a href="/" { "All sessions" } }
        };
        (status, Html(pages::page("error", None, None, &main).into_string())).into_response()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HomeQuery {
    q: String,
    project: String,
    tool: String,
    model: String,
    sort: String,
    from: usize,
}

async fn home(State(shared): Served, Query(params): Query<HomeQuery>) -> Page {
    let HomeQuery { q, project, tool, model, sort, from } = params;
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let query = SessionQuery {
        text: text(&q),
        project: text(&project),
        tool: text(&tool),
        model: text(&model),
        ..SessionQuery::default()
    };
    let list = load::sessions(&shared.repo, &query).await?;
    let order = SessionOrder::of(&sort);
    let filter = SessionFilter { text: q, project, tool, model, order, from };
    let today = times::day(SystemClock.now_us());
    let live = format!("/live?head={}", load::heads(&shared.repo).await?);
    Ok(shared.page("Sessions", Some(&live), &pages::sessions(&list, &filter, today)))
}

#[derive(Deserialize)]
struct RevisionQuery {
    rev: String,
    #[serde(default)]
    from: usize,
    #[serde(default)]
    original: u8,
    #[serde(default)]
    all: u8,
    #[serde(default)]
    to: Option<String>,
}

async fn transcript(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let total = context.compiled.message_count();
    // A conversation opens at its end.
    let last = total.saturating_sub(pages::TRANSCRIPT) + 1;
    let from = if params.from == 0 { last } else { params.from.min(total.max(1)) };
    let page = pages::TRANSCRIPT;
    let messages = load::messages(&shared.repo, context.compiled.messages(), from, page).await?;
    let options =
        TranscriptOptions { most: MOST, linked: true, part: 0, subagents: &context.subagents };
    let main = pages::transcript(&context, from, &messages, options);
    let live = context
        .is_branch
        .then(|| format!("/live?rev={}&head={}", query(&params.rev), context.head));
    Ok(shared.page(&context.name(), live.as_deref(), &main))
}

#[derive(Deserialize)]
struct CompareQuery {
    a: String,
    b: String,
}

async fn compare(State(shared): Served, Query(params): Query<CompareQuery>) -> Page {
    let before = load::context(&shared.repo, &params.a).await?;
    let after = load::context(&shared.repo, &params.b).await?;
    let diff = tract_engine::diff(&before.compiled, &after.compiled, &tract_schema::diff_lines);
    let form = Form::all().find(|form| form.as_str() == "anthropic-params");
    let form = form.ok_or_else(|| Error::NotFound("no form for requests".to_owned()))?;
    let options = FormOptions::default();
    let first = compile_form(&before.compiled, form, &options)?;
    let second = compile_form(&after.compiled, form, &options)?;
    let miss = tract_providers::why_miss(&first, &second);
    let blocks = (first.prefix.len(), second.prefix.len());
    let (before, after) = (&before, &after);
    let compared = Compared { before, after, diff: &diff, miss: miss.as_ref(), blocks };
    Ok(shared.page("Compare", None, &pages::compare(&compared)))
}

async fn tools(State(shared): Served, Query(params): Query<RevisionQuery>) -> Page {
    let context = load::readable_context(&shared.repo, &params.rev).await?;
    let tools = context.compiled.tools().iter();
    let tools = tools.map(|tool| (tool.id, &*tool.name, &*tool.schema));
    let facts = load::tool_facts(&shared.repo, tools).await?;
    let (changes, has_more) = load::tool_changes(&shared.repo, context.head).await?;
    let main = pages::tools(&context, &facts, &changes, has_more);
    Ok(shared.page(&format!("Tools of {}", context.name()), None, &main))
}

/// Returns the whole text of a message as plain text, in which a browser runs nothing.
async fn text(
    State(shared): State<Arc<Shared>>,
    Query(params): Query<RevisionQuery>,
) -> Result<impl IntoResponse> {
    let text = load::whole_text(&shared.repo, &params.rev, params.original == 1).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text))
}

/// Returns the request that a provider would get, for copying.
async fn request(
    State(shared): State<Arc<Shared>>,
    Query(params): Query<RevisionQuery>,
) -> Result<impl IntoResponse> {
    let form: Form = params.to.as_deref().unwrap_or("anthropic-params").parse()?;
    let context = load::context(&shared.repo, &params.rev).await?;
    let request = compile_form(&context.compiled, form, &FormOptions::default())?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], request.to_json().to_string()))
}

#[derive(Deserialize)]
struct LiveQuery {
    rev: Option<String>,
}

/// Returns the head of a branch, or a hash of all heads. Open pages poll it to find out whether they
/// are outdated.
async fn live(State(shared): Served, Query(params): Query<LiveQuery>) -> Result<String> {
    let Some(rev) = params.rev else { return load::heads(&shared.repo).await };
    let name = RefName::branch(&rev).map_err(tract_engine::Error::from)?;
    let head = shared.repo.head_of(&name).await?;
    let head = head.ok_or_else(|| Error::NotFound("the branch was deleted".to_owned()))?;
    Ok(head.to_string())
}
