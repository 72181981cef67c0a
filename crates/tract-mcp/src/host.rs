//! Serves tools and documents as an MCP server, over a pair of streams.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig,
    Tool as ListedTool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, serve_server};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tract_core::{DynTool, RenderedValue, ToolContext, ToolError, ToolResult};

use crate::error::{McpError, Result};
use crate::served::ServedLines;

/// A document that clients may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDocument {
    /// Its URI.
    pub uri: String,
    /// Its name, for people.
    pub name: String,
    /// Its description, one sentence.
    pub description: String,
}

impl HostDocument {
    /// Creates the entry of a document.
    pub fn new(
        uri: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self { uri: uri.into(), name: name.into(), description: description.into() }
    }
}

/// A page of the documents of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPage {
    /// The documents.
    pub documents: Vec<HostDocument>,
    /// The cursor of the next page; `None` on the last one.
    pub next: Option<String>,
}

impl HostPage {
    /// Creates the last page.
    pub fn last(documents: Vec<HostDocument>) -> Self {
        Self { documents, next: None }
    }
}

/// The text documents that clients of a host may read.
#[async_trait]
pub trait HostDocuments: Send + Sync + 'static {
    /// Lists documents, from the beginning or from the `next` of the page before.
    ///
    /// # Errors
    /// The error is sent to the client.
    async fn list(&self, cursor: Option<&str>) -> Result<HostPage, ToolError>;

    /// Lists further URIs that can be read, as URI templates (RFC 6570).
    fn templates(&self) -> Vec<HostDocument> {
        Vec::new()
    }

    /// Reads the text of a document, with its media type; `None` if no document has this URI.
    ///
    /// # Errors
    /// The error is sent to the client.
    async fn read(&self, uri: &str) -> Result<Option<(String, &'static str)>, ToolError>;
}

/// An MCP server made of tools.
///
/// ```no_run
/// # async fn example(tool: std::sync::Arc<dyn tract_core::DynTool>) -> tract_mcp::Result<()> {
/// use tract_mcp::McpHost;
/// let mut host = McpHost::new("notes", "1.0");
/// host.tools.push(tool);
/// host.serve_stdio().await
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct McpHost {
    /// The name of the server.
    pub name: String,
    /// The version of the server.
    pub version: String,
    /// The instructions, which clients show to their models.
    pub instructions: String,
    /// The tools. Of two tools with the same name, the first is called.
    pub tools: Vec<Arc<dyn DynTool>>,
    /// The base context of calls. Each call gets its own id and cancellation token.
    pub context: ToolContext,
    /// The documents that clients may read.
    pub documents: Option<Arc<dyn HostDocuments>>,
    /// Time limit of a call, including the wait for other calls; 60 s by default.
    pub timeout: Duration,
    /// Maximum size of a request in bytes; 4 MiB by default. A longer one is answered with an error.
    pub max_line_bytes: usize,
    at_once: Arc<Semaphore>,
}

impl fmt::Debug for McpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpHost").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Maximum number of concurrent calls. Further calls wait.
const AT_ONCE: usize = 8;

impl McpHost {
    /// Creates a host without tools.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            instructions: String::new(),
            tools: Vec::new(),
            context: ToolContext::new("mcp"),
            documents: None,
            timeout: Duration::from_secs(60),
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            max_line_bytes: 4 << 20,
        }
    }

    /// Serves one client on the standard streams until it closes its end.
    ///
    /// # Errors
    /// [`McpError::Protocol`] if the handshake of the client violates the protocol.
    pub async fn serve_stdio(self) -> Result<()> {
        self.serve(tokio::io::stdin(), tokio::io::stdout()).await
    }

    /// Serves one client over two streams until it closes its end.
    ///
    /// # Behavior
    /// - A request that is too long, nested too deeply, or not JSON is answered with an error,
    ///   under its id if that can be read.
    /// - At most eight calls run concurrently; a call that panics is answered with an error.
    /// - When the client cancels a call, the tool is cancelled too.
    /// - A client that disconnects before `initialize` is ignored.
    ///
    /// # Errors
    /// As [`serve_stdio`](Self::serve_stdio).
    pub async fn serve<R, W>(self, reader: R, writer: W) -> Result<()>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let transport = ServedLines::new(reader, writer, self.max_line_bytes);
        let server = self.name.clone();
        let service = match serve_server(self, transport).await {
            Ok(service) => service,
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(McpError::Protocol { server, what: error.to_string() }),
        };
        match service.waiting().await {
            Ok(_) => Ok(()),
            Err(error) => Err(McpError::Protocol { server, what: error.to_string() }),
        }
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    /// Runs a tool in a separate task, so that a panic ends the call but not the server.
    async fn run(
        &self,
        tool: &Arc<dyn DynTool>,
        arguments: String,
        request: &RequestContext<RoleServer>,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        let cancellation = tract_core::CancellationToken::new();
        let context = self.context.for_call(request.id.to_string());
        let context = context.with_cancellation(cancellation.clone());
        let (tool, at_once) = (Arc::clone(tool), Arc::clone(&self.at_once));
        let spec = tool.spec();
        let unanswered = |reason: &str, hint| {
            let text = spec.traits.unanswered(&spec.name, reason, hint);
            ToolError::other(text).outcome_unknown()
        };
        // The permit is acquired in the task, so that a waiting call can be cancelled and times
        // out. On both, the token lets the tool clean up what it has started, and the abort drops
        // it at its next await.
        let mut task = tokio::spawn(async move {
            let _turn = at_once.acquire_owned().await;
            tool.run(&arguments, &context).await
        });
        let ended = tokio::select! {
            ended = &mut task => ended,
            () = request.ct.cancelled() => {
                cancellation.cancel();
                task.abort();
                return Err(unanswered("was cancelled", None));
            }
            () = tokio::time::sleep(self.timeout) => {
                cancellation.cancel();
                task.abort();
                let limit_ms = self.timeout.as_millis();
                let why = format!("took longer than {limit_ms} ms");
                return Err(unanswered(&why, Some("ask for less in one call")));
            }
        };
        ended.unwrap_or_else(|error| {
            Err(unanswered("failed unexpectedly", None).operator(error.to_string()))
        })
    }
}

impl ServerHandler for McpHost {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools();
        let capabilities = match self.documents {
            Some(_) => tools.enable_resources().build(),
            None => tools.build(),
        };
        let config = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(self.name.clone(), self.version.clone()));
        match self.instructions.as_str() {
            "" => config,
            text => config.with_instructions(text),
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed: Result<Vec<_>, _> = self.tools.iter().map(listed).collect();
        Ok(ListToolsResult::with_all_items(listed?))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.find(&request.name) else {
            return Err(ErrorData::invalid_params(
                format!("unknown tool {:?}", request.name),
                None,
            ));
        };
        let arguments = serde_json::to_string(&request.arguments.unwrap_or_default())
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let answer = match self.run(tool, arguments, &context).await {
            Ok(result) => answer(&result),
            Err(error) => {
                log(&request.name, &error);
                CallToolResult::error(vec![ContentBlock::text(error.model_text())])
            }
        };
        Ok(answer.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let Some(documents) = &self.documents else { return Ok(ListResourcesResult::default()) };
        let cursor = request.and_then(|request| request.cursor);
        let page = documents.list(cursor.as_deref()).await;
        let page = page.map_err(|error| refused("resources/list", &error))?;
        let resources = page.documents.into_iter().map(|document| {
            Resource::new(document.uri, document.name)
                .with_description(document.description)
                .with_mime_type("application/json")
        });
        let mut result = ListResourcesResult::with_all_items(resources.collect());
        result.next_cursor = page.next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let documents = self.documents.as_ref().map(|documents| documents.templates());
        let templates = documents.unwrap_or_default().into_iter().map(|document| {
            ResourceTemplate::new(document.uri, document.name)
                .with_description(document.description)
        });
        Ok(ListResourceTemplatesResult::with_all_items(templates.collect()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let unknown = || {
            let what = format!("there is no resource {:?}", request.uri);
            ErrorData::resource_not_found(what, None)
        };
        let Some(documents) = &self.documents else { return Err(unknown()) };
        let read = documents.read(&request.uri).await;
        let read = read.map_err(|error| refused("resources/read", &error))?;
        let (text, media_type) = read.ok_or_else(unknown)?;
        let contents = ResourceContents::text(text, request.uri).with_mime_type(media_type);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// Returns the listing of a tool: its schema, and its traits as annotations.
fn listed(tool: &Arc<dyn DynTool>) -> Result<ListedTool, ErrorData> {
    let spec = tool.spec();
    let object = |text: &str| {
        let parsed: serde_json::Result<JsonObject> = serde_json::from_str(text);
        parsed.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    };
    let schema = object(&spec.parameters)?;
    let (name, description) = (Cow::Owned(spec.name), Cow::Owned(spec.description));
    let mut listed = ListedTool::new_with_raw(name, Some(description), Arc::new(schema));
    listed.annotations = Some(ToolAnnotations::from_raw(
        None,
        Some(spec.traits.read_only),
        Some(spec.traits.destructive),
        Some(spec.traits.idempotent),
        Some(false),
    ));
    // The protocol allows only objects as structured results.
    if let Some(result) = tool.result_schema() {
        let result = object(&result)?;
        let is_object = result.get("type").and_then(|kind| kind.as_str()) == Some("object");
        listed.output_schema = is_object.then(|| Arc::new(result));
    }
    Ok(listed)
}

/// Converts a result: the text for the model, and the value for programs if it is an object.
fn answer(result: &ToolResult<RenderedValue>) -> CallToolResult {
    let text = vec![ContentBlock::text(result.model_text())];
    let mut answer = match result.success {
        true => CallToolResult::success(text),
        false => CallToolResult::error(text),
    };
    let value = result.value.as_ref();
    let value = value.and_then(|value| serde_json::from_str(value.json.as_str()).ok());
    answer.structured_content = value.filter(serde_json::Value::is_object);
    answer
}

fn refused(what: &str, error: &ToolError) -> ErrorData {
    log(what, error);
    ErrorData::invalid_params(error.model_text(), None)
}

/// Logs the operator's text of a failure, which is not sent to the client. Invalid arguments, which
/// the client can correct, are logged at a lower level.
fn log(what: &str, error: &ToolError) {
    let operator = error.operator_text();
    match error {
        ToolError::Validation(_) => {
            tracing::debug!(target: "tract::mcp", request = what, error = operator);
        }
        _ => tracing::warn!(target: "tract::mcp", request = what, error = operator),
    }
}
