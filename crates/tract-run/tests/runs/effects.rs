//! A tool's effect happens once, as it was approved: also when runs are forked, undone, resumed, or
//! concurrent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use tract_core::{
    ChatModel, CommitId, Draft, DynTool, ModelError, ModelRequest, RefName, Reply, RequestMap,
    RequestTool, Store, ToolContext, ToolError, ToolOrigin, ToolResult, ToolSchema, ToolSpec,
    ToolTraits, block_on,
};
use tract_engine::Repo;
use tract_hooks::{BeforeDispatch, DispatchAction, Hooks};
use tract_run::{Agent, OnResume, Stop};
use tract_testkit::power::SeededRng;
use tract_tools::policy::ApprovalRequired;
use tract_tools::typed::ClosureTool;
use tract_tools::{Registry, Repair, RepairRequest, tool};

use crate::support::{
    Script, main_branch, memory, messages, move_to_another_machine, pause, poll_until, repo_on,
    texts_on, tool_of,
};

/// What was paid, in order.
#[derive(Default)]
pub(crate) struct Payments {
    paid: Mutex<Vec<usize>>,
    slow: AtomicUsize,
    /// How many late payments have begun, and whether they may be paid.
    begun: AtomicUsize,
    go: AtomicUsize,
}

impl Payments {
    pub(crate) fn paid(&self) -> Vec<usize> {
        self.paid.lock().unwrap().clone()
    }

    fn pay(&self, sum: usize) {
        self.paid.lock().unwrap().push(sum);
    }

    fn slow() -> Arc<Self> {
        Arc::new(Self { slow: AtomicUsize::new(200), ..Self::default() })
    }
}

/// Pays, and takes its time.
#[tool(destructive)]
pub(crate) async fn pay(sum: usize, context: &ToolContext) -> Result<String, ToolError> {
    let payments = context.resource::<Payments>()?;
    payments.pay(sum);
    // It blocks its thread, as a tool may.
    std::thread::sleep(Duration::from_millis(payments.slow.load(Ordering::SeqCst) as u64));
    Ok(format!("paid {sum}"))
}

/// Notes something down.
#[tool]
async fn note(context: &ToolContext) -> Result<String, ToolError> {
    context.resource::<Payments>()?.pay(0);
    Ok("noted".to_owned())
}

/// Sets something, which is the same when it is done twice, and never comes back.
#[tool(idempotent)]
async fn set(context: &ToolContext) -> Result<String, ToolError> {
    context.resource::<Payments>()?.pay(0);
    std::future::pending().await
}

fn registry() -> Registry {
    Registry::builder().tool(Pay).tool(Note).tool(Set).build().unwrap()
}

/// An agent whose tools pay into a till, and whose destructive calls need approval.
pub(crate) fn agent_of(
    repo: &Repo,
    branch: &RefName,
    says: impl IntoIterator<Item = Draft>,
    tools: Registry,
    payments: &Arc<Payments>,
) -> Agent {
    Agent::new(repo.clone(), branch.clone(), Script::new(says), tools)
        .context(ToolContext::new("").with_shared_resource(Arc::clone(payments)))
        .policy(ApprovalRequired::of_destructive())
}

/// An agent as a process of its own has it.
async fn agent_on(store: &Arc<dyn Store>, branch: &RefName, payments: &Arc<Payments>) -> Agent {
    let says = [Draft::assistant("done"), Draft::assistant("done")];
    agent_of(&repo_on(store).await, branch, says, registry(), payments)
}

/// Runs until the model's calls wait; returns the message that asks for them.
async fn ask_approval(store: &Arc<dyn Store>, payments: &Arc<Payments>, says: Draft) -> CommitId {
    let repo = repo_on(store).await;
    let agent = agent_of(&repo, &main_branch(), [says], registry(), payments);
    let report = agent.run(Some(Draft::user("go"))).await.unwrap();
    assert_eq!(report.stop, Stop::Waiting);
    let messages = messages(&repo).await;
    messages.iter().rfind(|message| message.content.calls().next().is_some()).unwrap().commit
}

async fn approve_all(repo: &Repo) {
    for waits in repo.pending().await.unwrap() {
        repo.approve(&waits.id).await.unwrap();
    }
}

/// Runs until the model's calls wait, and approves them.
async fn approved(store: &Arc<dyn Store>, payments: &Arc<Payments>, says: Draft) -> Repo {
    ask_approval(store, payments, says).await;
    let repo = repo_on(store).await;
    approve_all(&repo).await;
    repo
}

fn pays(sum: usize) -> Draft {
    Draft::assistant("").call("c1", "pay", format!(r#"{{"sum":{sum}}}"#))
}

/// The digits of a call's arguments.
fn sum_of(arguments: &str) -> usize {
    arguments.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Runs an agent on each branch, all at the same time.
fn at_once(store: &Arc<dyn Store>, payments: &Arc<Payments>, branches: &[RefName]) {
    let start = std::sync::Barrier::new(branches.len());
    std::thread::scope(|scope| {
        for branch in branches {
            let start = &start;
            scope.spawn(move || {
                block_on(async {
                    let agent = agent_on(store, branch, payments).await.on_resume(OnResume::Run);
                    start.wait();
                    // Of several on one branch, one records what the model says next.
                    let _ = agent.run(None).await;
                });
            });
        }
    });
}

#[test]
fn three_runs_at_once_after_one_approval_pay_once() {
    for _ in 0..8 {
        let (store, payments) = (memory(), Payments::slow());
        let repo = block_on(approved(&store, &payments, pays(5)));
        at_once(&store, &payments, &[main_branch(), main_branch(), main_branch()]);
        assert_eq!(payments.paid(), [5]);
        let texts = block_on(texts_on(&repo, &main_branch()));
        assert_eq!(texts[2], "tool: paid 5 <c1 pay>", "{texts:?}");
    }
}

#[test]
fn two_forks_at_once_after_one_approval_pay_once_and_both_know_it() {
    for _ in 0..8 {
        let (store, payments) = (memory(), Payments::slow());
        let branches = block_on(async {
            let message = ask_approval(&store, &payments, pays(5)).await;
            let repo = repo_on(&store).await;
            approve_all(&repo).await;
            let head = repo.head_of(&main_branch()).await.unwrap().unwrap();
            assert_ne!(head, message, "that it waits is on the branch");
            [
                repo.create_branch("a", head).await.unwrap(),
                repo.create_branch("b", head).await.unwrap(),
            ]
        });
        at_once(&store, &payments, &branches);
        assert_eq!(payments.paid(), [5]);
        let repo = block_on(repo_on(&store));
        for branch in &branches {
            let texts = block_on(texts_on(&repo, branch));
            assert_eq!(texts[2], "tool: paid 5 <c1 pay>", "{branch}: {texts:?}");
        }
    }
}

#[test]
fn an_effect_is_not_repeated_after_any_number_of_undos() {
    block_on(async {
        for undos in 1..6 {
            let (store, payments) = (memory(), Arc::new(Payments::default()));
            let repo = approved(&store, &payments, pays(5)).await;
            agent_on(&store, &main_branch(), &payments).await.run(None).await.unwrap();
            assert_eq!(payments.paid(), [5]);
            for _ in 0..undos {
                let _ = repo.undo(&main_branch()).await;
            }
            approve_all(&repo).await;
            if texts_on(&repo, &main_branch()).await.len() < 2 {
                // The model has not asked for it there.
                continue;
            }
            let agent = agent_on(&store, &main_branch(), &payments).await.on_resume(OnResume::Run);
            agent.run(None).await.unwrap();
            assert_eq!(payments.paid(), [5], "after {undos} undos");
            let texts = texts_on(&repo, &main_branch()).await;
            assert_eq!(texts[2], "tool: paid 5 <c1 pay>", "after {undos} undos: {texts:?}");
        }
    });
}

#[test]
fn a_second_run_waits_for_the_call_that_the_first_one_runs() {
    let (store, payments) = (memory(), Payments::slow());
    let repo = block_on(approved(&store, &payments, pays(5).call("c2", "note", "{}")));
    let run =
        || block_on(async { agent_on(&store, &main_branch(), &payments).await.run(None).await });
    std::thread::scope(|scope| {
        let first = scope.spawn(run);
        while payments.paid() != [0, 5] {
            std::thread::yield_now();
        }
        let second = run();
        let first = first.join().unwrap();
        assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    });
    let texts = block_on(texts_on(&repo, &main_branch()));
    assert_eq!(payments.paid(), [0, 5]);
    assert!(texts.contains(&"tool: paid 5 <c1 pay>".to_owned()), "{texts:?}");
    assert!(!texts.iter().any(|line| line.contains("interrupted")), "{texts:?}");
}

#[test]
fn an_approved_call_runs_after_any_other_call_of_its_turn() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let says = Draft::assistant("").call("c1", "note", "{}").call("c2", "pay", r#"{"sum":7}"#);
        ask_approval(&store, &payments, says).await;
        assert_eq!(payments.paid(), [0], "what needs no approval has run");
        let repo = repo_on(&store).await;
        approve_all(&repo).await;
        agent_on(&store, &main_branch(), &payments).await.run(None).await.unwrap();
        assert_eq!(payments.paid(), [0, 7]);
        let texts = texts_on(&repo, &main_branch()).await;
        assert_eq!(texts[2..4], ["tool: noted <c1 note>", "tool: paid 7 <c2 pay>"]);
    });
}

#[test]
fn an_idempotent_call_that_was_cut_off_may_have_run() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let says = Draft::assistant("").call("c1", "set", "{}");
        {
            let repo = repo_on(&store).await;
            let agent = agent_of(&repo, &main_branch(), [says], registry(), &payments);
            let mut run = std::pin::pin!(agent.run(Some(Draft::user("go"))));
            poll_until(run.as_mut(), || !payments.paid().is_empty()).await;
        }
        agent_on(&store, &main_branch(), &payments).await.run(None).await.unwrap();
        let texts = texts_on(&repo_on(&store).await, &main_branch()).await;
        assert!(texts[2].contains("may have run"), "{}", texts[2]);
        assert!(!texts[2].contains("not executed"), "{}", texts[2]);
    });
}

/// Reads the sum as what it was meant to be: a name, and the sum.
struct Meant(&'static str, usize);

#[async_trait]
impl Repair for Meant {
    fn name(&self) -> &str {
        self.0
    }

    async fn repair(&self, _: &RepairRequest<'_>) -> Result<Option<String>, ToolError> {
        Ok(Some(format!(r#"{{"sum":{}}}"#, self.1)))
    }
}

#[test]
fn an_approved_repaired_call_runs_as_shown() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let says = Draft::assistant("").call("c1", "pay", r#"{"sum":"1"}"#);
        let repo = repo_on(&store).await;
        let agent = |says: Draft, repair: Meant| {
            agent_of(&repo, &main_branch(), [says], registry(), &payments).repair(Arc::new(repair))
        };
        let first = agent(says, Meant("thousand", 1000));
        assert_eq!(first.run(Some(Draft::user("go"))).await.unwrap().stop, Stop::Waiting);
        let shown = repo.pending().await.unwrap()[0].request.describe();
        assert!(shown.contains(r#"{"sum":1000}"#), "{shown}");
        approve_all(&repo).await;
        // Another repair would make it something else.
        let second = agent(Draft::assistant("done"), Meant("million", 1_000_000));
        assert_eq!(second.run(None).await.unwrap().stop, Stop::Answered);
        assert_eq!(payments.paid(), [1000]);
    });
}

#[test]
fn arguments_that_a_handler_replaced_are_approved_once_and_run_as_shown() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let questions = Arc::new(AtomicUsize::new(0));
        let hooks = || {
            let questions = Arc::clone(&questions);
            Hooks::new().on("doubles", move |event: &BeforeDispatch| {
                questions.fetch_add(1, Ordering::SeqCst);
                DispatchAction::Replace(format!(
                    r#"{{"sum":{}}}"#,
                    sum_of(&event.call.arguments) * 2
                ))
            })
        };
        let repo = repo_on(&store).await;
        let agent = |says: Draft| {
            agent_of(&repo.with_hooks(hooks()), &main_branch(), [says], registry(), &payments)
        };
        let report = agent(pays(5)).run(Some(Draft::user("go"))).await.unwrap();
        assert_eq!(report.stop, Stop::Waiting);
        let shown = repo.pending().await.unwrap()[0].request.describe();
        assert!(shown.contains(r#"{"sum":10}"#), "{shown}");
        approve_all(&repo).await;
        let report = agent(Draft::assistant("done")).run(None).await.unwrap();
        assert_eq!(report.stop, Stop::Answered);
        assert_eq!(payments.paid(), [10]);
    });
}

/// A model whose provider was asked to enforce the schema.
struct Strict(Arc<Script>, RequestTool);

#[async_trait]
impl ChatModel for Strict {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let mut reply = self.0.chat(request).await?;
        reply.sent = [self.1.clone()].into_iter().collect::<RequestMap>();
        Ok(reply)
    }
}

/// Gives, with a word about it that may be absent and not null.
fn give() -> Arc<dyn DynTool> {
    let spec = ToolSpec::new("give", "Gives.", r#"{"type":"object"}"#);
    tool_of(spec.traits(ToolTraits::new().destructive()), |arguments, context| {
        context.resource::<Payments>()?.pay(sum_of(arguments));
        Ok(format!("gave {arguments}"))
    })
}

const GIVE: &str = r#"{"name":"give","description":"Gives.","parameters":{"type":"object",
    "properties":{"sum":{"type":"integer"},"word":{"type":"string"}},"required":["sum"]}}"#;

#[test]
fn a_call_sent_in_strict_mode_runs_once_it_is_approved_or_resumed() {
    for approve in [true, false] {
        block_on(async {
            let (store, payments) = (memory(), Arc::new(Payments::default()));
            let registry = || Registry::builder().definition_with(GIVE, give()).build().unwrap();
            let id = registry().iter().next().unwrap().definition().id();
            let sent = RequestTool::new("give", "give", id).strict(true);
            let says = Draft::assistant("").call("c1", "give", r#"{"sum":3,"word":null}"#);
            let repo = repo_on(&store).await;
            let agent = |says: Draft| {
                let model = Arc::new(Strict(Script::new([says]), sent.clone()));
                let agent = Agent::new(repo.clone(), main_branch(), model, registry())
                    .context(ToolContext::new("").with_shared_resource(Arc::clone(&payments)))
                    .on_resume(OnResume::Run);
                if approve { agent.policy(ApprovalRequired::of_destructive()) } else { agent }
            };
            if approve {
                let report = agent(says).run(Some(Draft::user("go"))).await.unwrap();
                assert_eq!(report.stop, Stop::Waiting);
                approve_all(&repo).await;
            } else {
                // The process ends right after the reply was recorded.
                let stop = Arc::new(AtomicUsize::new(0));
                let seen = Arc::clone(&stop);
                let agent = agent(says).on_progress(move |progress| {
                    if matches!(progress, tract_run::Progress::Replied { .. }) {
                        seen.fetch_add(1, Ordering::SeqCst);
                        std::panic::resume_unwind(Box::new("the process ends"));
                    }
                });
                let run = std::thread::spawn(move || {
                    block_on(agent.run(Some(Draft::user("go")))).map(drop)
                });
                assert!(run.join().is_err(), "it has ended");
                assert_eq!(stop.load(Ordering::SeqCst), 1);
            }
            let report = agent(Draft::assistant("done")).run(None).await.unwrap();
            assert_eq!(report.stop, Stop::Answered);
            let texts = texts_on(&repo, &main_branch()).await;
            assert_eq!(payments.paid(), [3], "{texts:?}");
        });
    }
}

const LISTED: &str = r#"{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"sum":{"type":"integer"}}}}"#;

/// A tool that a server lists.
fn remote(server: &'static str, payments: &Arc<Payments>) -> Arc<dyn DynTool> {
    let definition = ToolSchema::parse(LISTED).unwrap();
    let spec = ToolSpec::new("pay", "Pays.", r#"{"type":"object"}"#)
        .traits(ToolTraits::new().destructive())
        .origin(ToolOrigin::new(server, definition));
    let payments = Arc::clone(payments);
    tool_of(spec, move |arguments, _| {
        payments.pay(sum_of(arguments));
        Ok(format!("paid by {server}"))
    })
}

#[test]
fn a_payment_approved_for_one_server_does_not_run_on_another() {
    block_on(async {
        for approval_wanted in [true, false] {
            let (store, payments) = (memory(), Arc::new(Payments::default()));
            let repo = repo_on(&store).await;
            let agent = |server, says: Draft, wanted: bool| {
                let remote = remote(server, &payments);
                let registry = Registry::builder().definition_with(LISTED, remote).build().unwrap();
                let agent = Agent::new(repo.clone(), main_branch(), Script::new([says]), registry);
                if wanted { agent.policy(ApprovalRequired::of_destructive()) } else { agent }
            };
            let first = agent("sa", pays(5), true);
            let report = first.run(Some(Draft::user("go"))).await.unwrap();
            assert_eq!(report.stop, Stop::Waiting);
            approve_all(&repo).await;
            let other = agent("sb", Draft::assistant("done"), approval_wanted);
            let report = other.run(None).await.unwrap();
            assert_eq!(payments.paid(), [0; 0], "nothing was approved for sb");
            assert_eq!(report.stop, Stop::Waiting, "it has to be approved for sb");
            approve_all(&repo).await;
            let report = agent("sb", Draft::assistant("done"), true).run(None).await.unwrap();
            assert_eq!((report.stop, payments.paid()), (Stop::Answered, vec![5]));
        }
    });
}

/// Pays once it is released, and signals when it has begun.
#[tool]
async fn pay_later(context: &ToolContext) -> Result<String, ToolError> {
    let payments = context.resource::<Payments>()?;
    payments.begun.fetch_add(1, Ordering::SeqCst);
    while payments.go.load(Ordering::SeqCst) == 0 {
        pause(1).await;
    }
    payments.pay(9);
    Ok("paid 9 at last".to_owned())
}

#[test]
fn a_true_answer_that_comes_late_takes_the_place_of_the_one_that_was_made_up() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let agent = |repo: Repo, branch: RefName, says: Draft| {
            let registry = Registry::builder().tool(Note).tool(PayLater).build().unwrap();
            agent_of(&repo, &branch, [says], registry, &payments)
        };
        let says = Draft::assistant("").call("c1", "pay_later", "{}").call("c2", "note", "{}");
        let repo = repo_on(&store).await;
        let first = agent(repo_on(&store).await, main_branch(), says);
        let mut run = Box::pin(first.run(Some(Draft::user("go"))));
        poll_until(run.as_mut(), || payments.begun.load(Ordering::SeqCst) > 0).await;
        move_to_another_machine(&repo, true).await;
        // Another run, and one on a fork, find it dead.
        let call_message = messages(&repo).await[1].commit;
        let fork = repo.create_branch("fork", call_message).await.unwrap();
        for branch in [main_branch(), fork.clone()] {
            let done = Draft::assistant("sorry");
            let report = agent(repo.clone(), branch.clone(), done).run(None).await.unwrap();
            assert_eq!(report.stop, Stop::Answered);
            let texts = texts_on(&repo, &branch).await;
            assert!(texts[2].contains("may have run"), "{texts:?}");
            assert!(texts[3].contains("not executed"), "{texts:?}");
        }
        // And then it answers.
        payments.go.store(1, Ordering::SeqCst);
        let error = run.await.unwrap_err();
        assert_eq!(error.code(), "held", "{error}");
        assert_eq!(payments.paid(), [9], "what another run has answered since is not begun");
        for branch in [main_branch(), fork] {
            let texts = texts_on(&repo, &branch).await;
            assert!(texts.contains(&"tool: paid 9 at last <c1 pay_later>".to_owned()), "{texts:?}");
            assert!(!texts.iter().any(|line| line.contains("may have run")), "{texts:?}");
        }
        // A third branch knows it at once, and pays nothing.
        let third = repo.create_branch("third", call_message).await.unwrap();
        let done = Draft::assistant("fine");
        agent(repo.clone(), third.clone(), done).run(None).await.unwrap();
        assert_eq!(texts_on(&repo, &third).await[2], "tool: paid 9 at last <c1 pay_later>");
        assert_eq!(payments.paid(), [9]);
    });
}

#[test]
fn a_run_that_waits_too_long_says_who_it_waits_for_and_answers_nothing() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let agent = |repo: Repo, says: Draft| {
            let says = [says, Draft::assistant("done")];
            let registry = Registry::builder().tool(PayLater).build().unwrap();
            agent_of(&repo, &main_branch(), says, registry, &payments)
                .wait_for_others(Duration::ZERO)
        };
        let says = Draft::assistant("").call("c1", "pay_later", "{}");
        let repo = repo_on(&store).await;
        let first = agent(repo.clone(), says);
        let mut run = Box::pin(first.run(Some(Draft::user("go"))));
        poll_until(run.as_mut(), || payments.begun.load(Ordering::SeqCst) > 0).await;
        let before = repo.head_of(&main_branch()).await.unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let second = agent(repo.clone(), Draft::assistant("done")).on_progress(move |progress| {
            if let tract_run::Progress::Held { by, branch } = progress {
                sink.lock().unwrap().push(format!("{by} on {branch}"));
            }
        });
        let error = second.run(None).await.unwrap_err();
        assert_eq!(error.code(), "held");
        let process = format!("process {}", std::process::id());
        assert!(error.to_string().starts_with(&process), "{error}");
        assert!(events.lock().unwrap()[0].starts_with(&process));
        assert_eq!(repo.head_of(&main_branch()).await.unwrap(), before, "nothing is written");
        payments.go.store(1, Ordering::SeqCst);
        assert_eq!(run.await.unwrap().stop, Stop::Answered);
        assert_eq!(payments.paid(), [9]);
    });
}

#[test]
fn a_run_that_lacks_the_approved_tool_leaves_the_call_open() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let repo = approved(&store, &payments, pays(5)).await;
        let tools = Registry::builder().tool(Note).build().unwrap();
        let model = Script::new([Draft::assistant("done")]);
        let agent = Agent::new(repo.clone(), main_branch(), model, tools);
        let error = agent.run(None).await.unwrap_err();
        assert_eq!(error.code(), "approved_tool", "{error}");
        agent_on(&store, &main_branch(), &payments).await.run(None).await.unwrap();
        assert_eq!(payments.paid(), [5], "with its tool it runs");
    });
}

/// Asks for a payment of its own whenever a person has spoken, and says that it is done otherwise.
struct Payer(AtomicUsize);

#[async_trait]
impl ChatModel for Payer {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let last = request.messages.last().map(|last| last.role.as_str().to_owned());
        Ok(Reply::new(match last.as_deref() {
            Some("user") => {
                let sum = self.0.fetch_add(2, Ordering::SeqCst);
                let both = [sum, sum + 1].map(|sum| format!(r#"{{"sum":{sum}}}"#));
                let says = Draft::assistant("").call("c1", "remit", &*both[0]);
                says.call("c2", "pay_once", &*both[1]).content
            }
            _ => Draft::assistant("done").content,
        }))
    }
}

/// Pays, and lets others run before and after it has.
fn remit(name: &str, traits: ToolTraits) -> ClosureTool {
    let schema = r#"{"type":"object","properties":{"sum":{"type":"integer"}}}"#;
    let spec = ToolSpec::new(name, "Pays.", schema).traits(traits);
    ClosureTool::new(spec, |arguments, context| async move {
        let sum = sum_of(&arguments.to_string());
        pause(1).await;
        context.resource::<Payments>()?.pay(sum);
        pause(1).await;
        Ok(ToolResult::<()>::done(format!("paid {sum}")))
    })
}

/// Lives in the store as processes do, one after the other: each step is one of them.
struct Steps {
    store: Arc<dyn Store>,
    payments: Arc<Payments>,
    model: Arc<Payer>,
    branches: Vec<RefName>,
}

impl Steps {
    async fn agent(&self, branch: &RefName) -> Agent {
        let registry = Registry::builder()
            .tool(remit("remit", ToolTraits::new()))
            .tool(remit("pay_once", ToolTraits::new().destructive()))
            .build()
            .unwrap();
        let model = Arc::clone(&self.model) as Arc<dyn ChatModel>;
        Agent::new(repo_on(&self.store).await, branch.clone(), model, registry)
            .context(ToolContext::new("").with_shared_resource(Arc::clone(&self.payments)))
            .policy(ApprovalRequired::of_destructive())
            .on_resume(OnResume::Run)
            .wait_for_others(Duration::ZERO)
    }

    async fn step(&mut self, draws: &mut SeededRng) -> String {
        let branch = self.branches[draws.below(self.branches.len())].clone();
        let repo = repo_on(&self.store).await;
        match draws.below(8) {
            0 => {
                let texts = self.agent(&branch).await.run(Some(Draft::user("pay"))).await;
                format!("say on {branch}: {:?}", texts.map(|report| report.stop))
            }
            1 => {
                let ran = self.agent(&branch).await.run(None).await;
                format!("run {branch}: {:?}", ran.map(|report| report.stop))
            }
            2 => {
                // Killed after so many pauses of its tools.
                let polls = 1 + draws.below(4);
                let agent = self.agent(&branch).await;
                let mut run = Box::pin(agent.run(Some(Draft::user("pay"))));
                let mut left = polls;
                std::future::poll_fn(|task| {
                    left -= 1;
                    if run.as_mut().poll(task).is_ready() || left == 0 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                format!("kill on {branch} after {polls}")
            }
            3 | 4 => {
                approve_all(&repo).await;
                "approve".to_owned()
            }
            5 => format!("undo {branch}: {:?}", repo.undo(&branch).await.map(|done| done.what)),
            6 => format!("redo {branch}: {:?}", repo.redo(&branch).await.map(|done| done.what)),
            _ => {
                let Some(head) = repo.head_of(&branch).await.unwrap() else {
                    return "nothing to fork".to_owned();
                };
                let page = tract_engine::log(&repo, head, 4).await.unwrap();
                let at = page.commits[draws.below(page.commits.len())].id();
                let name = format!("fork-{}", self.branches.len());
                self.branches.push(repo.create_branch(&name, at).await.unwrap());
                format!("fork of {branch} at {}", at.short())
            }
        }
    }
}

#[test]
fn no_effect_happens_twice_after_kills_approvals_undos_redos_and_forks() {
    let (mut paid, mut steps_taken) = (0, 0);
    for seed in 0..60 {
        block_on(async {
            let mut draws = SeededRng(seed);
            let mut steps = Steps {
                store: memory(),
                payments: Arc::default(),
                model: Arc::new(Payer(AtomicUsize::new(1))),
                branches: vec![main_branch()],
            };
            let mut log = Vec::new();
            for _ in 0..24 {
                log.push(steps.step(&mut draws).await);
                steps_taken += 1;
                let mut sums = steps.payments.paid();
                let all = sums.len();
                sums.sort_unstable();
                sums.dedup();
                assert_eq!(sums.len(), all, "seed {seed}: {log:#?}");
            }
            paid += steps.payments.paid().len();
        });
    }
    println!("{paid} payments in {steps_taken} steps");
    assert!(paid > 120, "{paid}");
}
