//! Clients for the providers' servers, and for servers with the same API. They need a tokio
//! runtime.
//!
//! The base URL and the key of each provider come from the environment: see [`Api`](crate::Api).
//!
//! A server with OpenAI's API is `openai` with another base URL, and needs no key.
//!
//! ```no_run
//! # async fn ask(request: tract_core::ModelRequest) -> Result<(), tract_core::ModelError> {
//! use tract_core::ChatModel;
//! use tract_providers::http::HttpModel;
//! let model = HttpModel::from_env("anthropic/claude-opus-4-7")?;      // key: ANTHROPIC_API_KEY
//! println!("{}", model.chat(&request).await?.text());
//! # Ok(())
//! # }
//! ```

mod answer;
mod builder;
mod guard;
mod retry;
mod send;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tract_core::telemetry::ModelDescription;
use tract_core::{CancellationToken, ChatModel, ModelError, ModelRequest, Reply, ReplyDelta};
use tract_schema::Dialect;

use crate::form::FormOptions;
use crate::params::Params;
use crate::profile_of;
use crate::request::params_of;

pub use builder::{ApiKey, HttpModelBuilder};
pub use retry::{Retry, RetryPolicy};

/// A model behind a provider's HTTP server. Cheap to clone; clones share connections.
///
/// # Behavior
/// - A request that failed before a part of the answer was delivered is retried, if a retry can
///   help, by the rules of [`RetryPolicy`]; `retry-after` is honored.
/// - An answer that ends early is [`ModelError::BrokenOff`] with the part that arrived.
/// - [`Reply::raw`] has the received bytes.
/// - The key is sent in one header and nowhere else: errors and `Debug` never show it, and an
///   answer that repeats it is rejected.
/// - Redirects are not followed, so the key is not sent to another server.
#[derive(Clone)]
pub struct HttpModel {
    pub(crate) inner: Arc<Inner>,
}

/// The configuration of a client.
pub(crate) struct Inner {
    pub(crate) settings: HttpModelBuilder,
    pub(crate) base: reqwest::Url,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) client: reqwest::Client,
}

pub(crate) type OnRetry = Arc<dyn Fn(&Retry<'_>) + Send + Sync>;

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("name", &self.name())
            .field("url", &self.inner.shown_url())
            .field("key", &self.inner.settings.key)
            .finish_non_exhaustive()
    }
}

impl HttpModel {
    /// Makes a client for `provider/model`, such as `openai/gpt-5.5`, with the key and base URL
    /// from the environment: see [the module](self).
    ///
    /// # Errors
    /// [`ModelError::Unauthorized`] if the provider needs a key and none is set; other errors if
    /// the name or a variable is invalid.
    pub fn from_env(name: &str) -> Result<Self, ModelError> {
        Self::builder(name)?.from_env().build()
    }

    /// Makes a builder for `provider/model`. It does not read the environment.
    ///
    /// # Errors
    /// If the name is not `provider/model` with a known provider.
    pub fn builder(name: &str) -> Result<HttpModelBuilder, ModelError> {
        let (dialect, model) = builder::split(name)?;
        Ok(HttpModelBuilder::new(dialect, model))
    }

    /// Returns the dialect of the server's API.
    pub fn dialect(&self) -> Dialect {
        self.inner.settings.dialect
    }

    /// Returns `provider/model`.
    pub fn name(&self) -> String {
        let HttpModelBuilder { dialect, model, .. } = &self.inner.settings;
        format!("{dialect}/{model}")
    }

    /// Returns the body for a request, without the members for streaming.
    ///
    /// # Errors
    /// [`ModelError::InvalidRequest`] if the request cannot be written in the provider's form.
    pub fn params(&self, request: &ModelRequest) -> Result<Params, ModelError> {
        let HttpModelBuilder { dialect, model, strict_tools, .. } = &self.inner.settings;
        let options = FormOptions { strict_tools: *strict_tools, ..FormOptions::default() };
        let mut params = params_of(request, *dialect, &options)
            .map_err(|error| ModelError::InvalidRequest { message: error.to_string() })?;
        // The model is the client's, unless the request names one. The model name in a recorded
        // reply is not a request for that model.
        let named = request.parameters.as_ref().is_some_and(|parameters| {
            let members = tract_core::json::split_object(parameters.as_str()).unwrap_or_default();
            members.iter().any(|(key, raw)| key == "model" && *raw != "null")
        });
        if !named {
            params = params.with("model", model);
        }
        profile_of(*dialect).adapter.settle(&mut params);
        Ok(match profile_of(*dialect).server.demanded {
            Some((key, value)) if params.get(key).is_none() => params.with(key, value),
            _ => params,
        })
    }

    /// Sends a body and waits for the whole answer.
    ///
    /// # Errors
    /// [`ModelError`] if there is no answer.
    pub async fn send(&self, params: &Params) -> Result<Reply, ModelError> {
        self.inner.answer(params, &CancellationToken::new(), None).await
    }

    /// Sends a body, delivers the answer piece by piece, and returns it whole.
    ///
    /// # Errors
    /// As [`ChatModel::stream`].
    pub async fn send_streaming(
        &self,
        params: &Params,
        cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<Reply, ModelError> {
        self.inner.answer(params, cancellation, Some(on_piece)).await
    }
}

#[async_trait]
impl ChatModel for HttpModel {
    fn description(&self) -> ModelDescription {
        let Inner { settings: HttpModelBuilder { dialect, model, .. }, base, .. } = &*self.inner;
        let described =
            ModelDescription::new(profile_of(*dialect).api.telemetry_name, model.as_str());
        match base.host_str() {
            Some(host) => ModelDescription {
                address: Some(host.trim_start_matches('[').trim_end_matches(']').to_owned()),
                port: base.port_or_known_default(),
                ..described
            },
            None => described,
        }
    }

    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        self.send(&self.params(request)?).await
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        cancellation: &CancellationToken,
        on_piece: &mut (dyn FnMut(ReplyDelta) + Send),
    ) -> Result<Reply, ModelError> {
        self.send_streaming(&self.params(request)?, cancellation, on_piece).await
    }
}
