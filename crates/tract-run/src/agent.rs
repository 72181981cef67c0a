//! An agent: the model, tools, instructions and limits of its runs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::{CancellationToken, ChatModel, CommitId, JsonText, RefName, ToolContext};
use tract_engine::Repo;
use tract_tools::budget::BudgetTracker;
use tract_tools::dispatch::{DispatchLimits, DispatchOptions, Dispatcher};
use tract_tools::pin::PinGate;
use tract_tools::policy::PastCalls;
use tract_tools::prompt::{Bindings, Prompt};
use tract_tools::resource::Resources;
use tract_tools::select::SearchTools;
use tract_tools::{HydrateOptions, Policy, Registry, RegistryError, Repair, Session};

use crate::effects::LEASE;
use crate::progress::Progress;
use crate::session::Stored;
use crate::turn::TurnDone;

/// The treatment of calls that had not started when a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnResume {
    /// They are answered as not executed; the model decides whether to ask again.
    #[default]
    Answer,
    /// They are run, and so are idempotent calls that no person approved, because running those
    /// again changes nothing. No other call that may have had an effect is run.
    Run,
}

/// Default time that a run waits for another one.
const PATIENCE: Duration = Duration::from_secs(60);

type ProgressCallback = Arc<dyn Fn(&Progress<'_>) + Send + Sync>;
type StopIf = Arc<dyn Fn(&TurnDone) -> Option<String> + Send + Sync>;

/// A branch, a model and tools. Cheap to clone.
///
/// ```
/// # tract_core::block_on(async {
/// use std::sync::{Arc, Mutex};
/// use tract_core::{ChatModel, Content, Draft, ModelError, ModelRequest, RefName, Reply};
/// use tract_engine::{Repo, RepoOptions};
/// use tract_run::{Agent, Stop};
/// use tract_tools::Registry;
///
/// struct Parrot;
/// #[async_trait::async_trait]
/// impl ChatModel for Parrot {
///     async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
///         let said = request.messages.last().map(|message| message.content.text());
///         Ok(Reply::new(Content::assistant(said.unwrap_or_default())))
///     }
/// }
/// let repo = Repo::new(Arc::new(tract_kv::memory()), RepoOptions::default());
/// repo.init().await?;
/// let agent = Agent::new(repo, RefName::branch("main")?, Arc::new(Parrot), Registry::builder().build()?);
/// let report = agent.run(Some(Draft::user("hello"))).await?;
/// assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Agent {
    pub(crate) repo: Repo,
    pub(crate) branch: RefName,
    pub(crate) model: Arc<dyn ChatModel>,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) session: Session,
    pub(crate) context: ToolContext,
    pub(crate) cancellation: CancellationToken,
    pub(crate) hydration: HydrateOptions,
    pub(crate) repair: Option<Arc<dyn Repair>>,
    pub(crate) resources: Option<Arc<Resources>>,
    pub(crate) parameters: Option<JsonText>,
    pub(crate) prompt: Option<(Arc<Prompt>, Bindings)>,
    pub(crate) budget: Option<Arc<BudgetTracker>>,
    pub(crate) max_steps: Option<u32>,
    pub(crate) stop_if: Vec<StopIf>,
    pub(crate) on_resume: OnResume,
    pub(crate) patience: Duration,
    pub(crate) lease: Duration,
    pub(crate) keep_raw: bool,
    pub(crate) tell: Option<ProgressCallback>,
    pub(crate) keeps_tools: bool,
    pub(crate) search: Option<SearchTools>,
    pub(crate) heeds_pins: bool,
    /// The gate that refuses tools which the repository has not approved.
    pub(crate) gate: Arc<Mutex<Option<Arc<PinGate>>>>,
    /// The calls that succeeded, for policies.
    pub(crate) past: Arc<Mutex<PastCalls>>,
    /// The head at which this agent left the branch, with the part of the session that is stored
    /// there.
    pub(crate) known: Arc<Mutex<Option<(CommitId, Stored)>>>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("branch", &self.branch)
            .field("dispatcher", &self.dispatcher)
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Creates an agent that works on a branch with the tools of a registry. Calls are checked
    /// against the approvals of the repository, unless [`ignore_pins`](Self::ignore_pins) is set.
    pub fn new(repo: Repo, branch: RefName, model: Arc<dyn ChatModel>, tools: Registry) -> Self {
        let hooks = repo.hooks().clone();
        Self {
            dispatcher: Dispatcher { hooks, ..Dispatcher::new(Arc::new(tools)) },
            repo,
            branch,
            model,
            session: Session::new(),
            context: ToolContext::new(""),
            cancellation: CancellationToken::new(),
            hydration: HydrateOptions::default(),
            repair: None,
            resources: None,
            parameters: None,
            prompt: None,
            budget: None,
            max_steps: None,
            stop_if: Vec::new(),
            on_resume: OnResume::default(),
            patience: PATIENCE,
            lease: LEASE,
            keep_raw: true,
            tell: None,
            keeps_tools: false,
            search: None,
            heeds_pins: true,
            gate: Arc::default(),
            past: Arc::default(),
            known: Arc::default(),
        }
    }

    /// Sets the session, the memory of tools between calls. It is stored on the branch;
    /// [`load_session`](crate::load_session) reads it again.
    #[must_use]
    pub fn session(mut self, session: &Session) -> Self {
        self.session = session.clone();
        self
    }

    /// Sets the base of each call's context: a deadline, a clock, resources by type.
    #[must_use]
    pub fn context(mut self, context: ToolContext) -> Self {
        self.context = context;
        self
    }

    /// Sets the resources of the tools.
    #[must_use]
    pub fn resources(mut self, resources: Arc<Resources>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// Sets the instructions, and adds the tools of their sections to those of the registry. Each
    /// run updates the instructions and tools on the branch to the prompt.
    ///
    /// # Errors
    /// [`RegistryError`] if a tool of the prompt has the same name as one in the registry.
    pub fn prompt(mut self, prompt: Prompt, bindings: Bindings) -> Result<Self, RegistryError> {
        let all = prompt.registry().registry(self.registry()).build()?;
        self.dispatcher.registry = Arc::new(all);
        self.prompt = Some((Arc::new(prompt), bindings));
        Ok(self)
    }

    /// Sets the parameters of requests, such as `{"temperature":0}`: a JSON object.
    #[must_use]
    pub fn parameters(mut self, parameters: JsonText) -> Self {
        self.parameters = Some(parameters);
        self
    }

    /// Adds a policy, which is evaluated right before a call runs.
    #[must_use]
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.dispatcher.policies.push(Arc::new(policy));
        self
    }

    /// Sets the options for running calls.
    #[must_use]
    pub fn dispatch_options(mut self, options: DispatchOptions) -> Self {
        self.dispatcher.options = options;
        self
    }

    /// Sets the limits on concurrent calls, shared by all agents that have the same limits.
    #[must_use]
    pub fn limits(mut self, limits: Arc<DispatchLimits>) -> Self {
        self.dispatcher.limits = Some(limits);
        self
    }

    /// Sets the options for reading calls.
    #[must_use]
    pub fn hydration(mut self, options: HydrateOptions) -> Self {
        self.hydration = options;
        self.dispatcher.hydration = options;
        self
    }

    /// Sets the repair, which gets one chance to correct invalid arguments of a call.
    #[must_use]
    pub fn repair(mut self, repair: Arc<dyn Repair>) -> Self {
        self.repair = Some(repair);
        self
    }

    /// Sets the budget.
    #[must_use]
    pub fn budget(mut self, budget: Arc<BudgetTracker>) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets the maximum number of requests to the model in one run; unlimited by default.
    #[must_use]
    pub fn max_steps(mut self, steps: u32) -> Self {
        self.max_steps = Some(steps);
        self
    }

    /// Leaves the tools in force on the branch unchanged. By default they are set to those of the
    /// registry and of the visible sections of the prompt.
    #[must_use]
    pub fn keep_tools(mut self) -> Self {
        self.keeps_tools = true;
        self
    }

    /// Lets the model search for tools. Tools of the registry whose names the search contains are
    /// deferred until the model has found them, and are in force from the next request on. The
    /// found tools are stored on the branch with the session
    /// ([`load_session`](crate::load_session)).
    ///
    /// # Errors
    /// [`RegistryError`] if a tool of the registry has the same name as the search.
    pub fn search_tools(mut self, search: SearchTools) -> Result<Self, RegistryError> {
        let all = Registry::builder().registry(self.registry()).tool(search.clone()).build()?;
        self.dispatcher.registry = Arc::new(all);
        self.search = Some(search);
        Ok(self)
    }

    /// Returns the names of the tools that the model has to search for first.
    pub(crate) fn deferred_tools(&self) -> BTreeSet<String> {
        self.search.as_ref().map(|search| search.deferred(&self.session)).unwrap_or_default()
    }

    /// Adds a condition that ends the run after a turn, with the returned reason.
    #[must_use]
    pub fn stop_if(
        mut self,
        condition: impl Fn(&TurnDone) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.stop_if.push(Arc::new(condition));
        self
    }

    /// Sets the treatment of calls that had not started when an earlier process ended.
    #[must_use]
    pub fn on_resume(mut self, on_resume: OnResume) -> Self {
        self.on_resume = on_resume;
        self
    }

    /// Sets how long it waits for another run that works on the same session, or on the calls of
    /// the same message, on this branch or a fork; 60 seconds by default. Then it ends with
    /// [`RunError::Held`](crate::RunError::Held) or
    /// [`SessionError::Held`](tract_tools::SessionError::Held), which name the other run. Its calls
    /// wait equally long for those of a turn that works on the same resources; then they are
    /// answered as not executed, with the name of the holder.
    #[must_use]
    pub fn wait_for_others(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the lease of this run on its calls, for runs that cannot inspect its process: 30
    /// seconds by default, at least 100 ms. It is renewed three times within that time.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets whether the raw bytes of answers are stored with their commits; they are by default.
    #[must_use]
    pub fn keep_raw(mut self, keep: bool) -> Self {
        self.keep_raw = keep;
        self
    }

    /// Sets the token that cancels the run. The request to the model is dropped, tools are
    /// cancelled, all calls are answered, and finished work is committed.
    #[must_use]
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = token;
        self
    }

    /// Sets the callback for progress.
    #[must_use]
    pub fn on_progress(mut self, tell: impl Fn(&Progress<'_>) + Send + Sync + 'static) -> Self {
        self.tell = Some(Arc::new(tell));
        self
    }

    /// Returns the repository.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns the branch.
    pub fn branch(&self) -> &RefName {
        &self.branch
    }

    /// Returns the session.
    pub fn get_session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn tell(&self, progress: &Progress<'_>) {
        if let Some(tell) = &self.tell {
            tell(progress);
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.dispatcher.registry
    }
}
