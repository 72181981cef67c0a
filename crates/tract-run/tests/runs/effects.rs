//! A tool's effect happens once, as it was approved: also when runs are forked, undone, resumed, or
//! concurrent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use tract_core::{
    ChatModel, Draft, DynTool, ModelError, ModelRequest, RefName, Reply, RequestMap, RequestTool,
    ToolContext, ToolError, ToolOrigin, ToolResult, ToolSchema, ToolSpec, ToolTraits, block_on,
};
use tract_engine::Repo;
use tract_hooks::{BeforeDispatch, DispatchAction, Hooks};
use tract_run::{Agent, OnResume, Stop};
use tract_testkit::power::SeededRng;
use tract_tools::policy::ApprovalRequired;
use tract_tools::typed::ClosureTool;
use tract_tools::{Registry, Repair, RepairRequest, tool};

use crate::support::{
    Script, agent_on, call, commit_at, fresh, head, main_branch, move_to_another_machine,
    noting_holders, pause, poll_until, reopened, run, texts, texts_on, tool_of,
};

/// What was paid, in order.
#[derive(Default)]
pub(crate) struct Payments {
    paid: Mutex<Vec<usize>>,
    /// How many milliseconds a payment takes.
    slow: AtomicUsize,
    /// How many late payments have begun, and whether they may be paid.
    begun: AtomicUsize,
    go: AtomicUsize,
}

impl Payments {
    fn pay(&self, sum: usize) {
        self.paid.lock().unwrap().push(sum);
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

/// A repository, and the till that the tools of its agents pay into. Their destructive calls need
/// approval.
pub(crate) struct Till {
    pub(crate) repo: Repo,
    payments: Arc<Payments>,
}

impl Till {
    pub(crate) fn new() -> Self {
        Self { repo: fresh(), payments: Arc::default() }
    }

    fn slow() -> Self {
        let till = Self::new();
        till.payments.slow.store(200, Ordering::SeqCst);
        till
    }

    pub(crate) fn paid(&self) -> Vec<usize> {
        self.payments.paid.lock().unwrap().clone()
    }

    /// An agent with what this repository and its till give to each.
    fn equip(&self, agent: Agent) -> Agent {
        agent.context(ToolContext::new("").with_shared_resource(Arc::clone(&self.payments)))
    }

    fn agent(&self, says: impl IntoIterator<Item = Draft>, tools: Registry) -> Agent {
        self.equip(agent_on(&self.repo, says, tools)).policy(ApprovalRequired::of_destructive())
    }

    /// An agent as a process of its own has it.
    pub(crate) fn next_process(
        &self,
        branch: &RefName,
        says: Vec<Draft>,
        tools: Registry,
    ) -> Agent {
        self.equip(Agent::new(reopened(&self.repo), branch.clone(), Script::new(says), tools))
            .policy(ApprovalRequired::of_destructive())
    }

    /// Runs a process of its own until the model has said all.
    fn resume(&self) {
        run(&self.next_process(&main_branch(), done(), registry()), None);
    }

    fn approve_all(&self) {
        for waits in block_on(self.repo.pending()).unwrap() {
            block_on(self.repo.approve(&waits.id)).unwrap();
        }
    }

    /// Approves the one call that waits, and is shown with these arguments.
    fn approve_shown(&self, arguments: &str) {
        let shown = block_on(self.repo.pending()).unwrap()[0].request.describe();
        assert!(shown.contains(arguments), "{shown}");
        self.approve_all();
    }

    /// Runs an agent on each branch, all at the same time.
    fn at_once(&self, branches: &[RefName]) {
        let start = std::sync::Barrier::new(branches.len());
        std::thread::scope(|scope| {
            for branch in branches {
                scope.spawn(|| {
                    let agent =
                        self.next_process(branch, done(), registry()).on_resume(OnResume::Run);
                    start.wait();
                    // Of several on one branch, one records what the model says next.
                    let _ = block_on(agent.run(None));
                });
            }
        });
    }

    /// Makes a branch that begins with the call that is asked for on `main`.
    fn fork(&self, name: &str) -> RefName {
        block_on(self.repo.create_branch(name, commit_at(&self.repo, 1))).unwrap()
    }
}

/// Runs until the model's calls wait.
#[track_caller]
fn waits(agent: &Agent) {
    assert_eq!(run(agent, "go").stop, Stop::Waiting);
}

/// A till whose agent has asked for calls that wait.
fn asked(till: Till, says: Draft) -> Till {
    waits(&till.agent([says], registry()));
    till
}

/// A till whose agent has asked for calls that are approved.
fn approved(till: Till, says: Draft) -> Till {
    let till = asked(till, says);
    till.approve_all();
    till
}

fn pays(sum: usize) -> Draft {
    call("c1", "pay", &format!(r#"{{"sum":{sum}}}"#))
}

fn done() -> Vec<Draft> {
    vec![Draft::assistant("done"), Draft::assistant("done")]
}

/// The digits of a call's arguments.
fn sum_of(arguments: &str) -> usize {
    arguments.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn three_runs_at_once_after_one_approval_pay_once() {
    for _ in 0..8 {
        let till = approved(Till::slow(), pays(5));
        till.at_once(&[main_branch(), main_branch(), main_branch()]);
        assert_eq!(till.paid(), [5]);
        let texts = texts(&till.repo);
        assert_eq!(texts[2], "tool: paid 5 <c1 pay>", "{texts:?}");
    }
}

#[test]
fn two_forks_at_once_after_one_approval_pay_once_and_both_know_it() {
    for _ in 0..8 {
        let till = approved(Till::slow(), pays(5));
        let head = head(&till.repo);
        assert_ne!(head, commit_at(&till.repo, 1), "that it waits is on the branch");
        let fork = |name| block_on(till.repo.create_branch(name, head)).unwrap();
        let branches = ["a", "b"].map(fork);
        till.at_once(&branches);
        assert_eq!(till.paid(), [5]);
        for branch in &branches {
            let texts = texts_on(&till.repo, branch);
            assert_eq!(texts[2], "tool: paid 5 <c1 pay>", "{branch}: {texts:?}");
        }
    }
}

#[test]
fn an_effect_is_not_repeated_after_any_number_of_undos() {
    for undos in 1..6 {
        let till = approved(Till::new(), pays(5));
        till.resume();
        assert_eq!(till.paid(), [5]);
        for _ in 0..undos {
            let _ = block_on(till.repo.undo(&main_branch()));
        }
        till.approve_all();
        if texts(&till.repo).len() < 2 {
            // The model has not asked for it there.
            continue;
        }
        run(&till.next_process(&main_branch(), done(), registry()).on_resume(OnResume::Run), None);
        assert_eq!(till.paid(), [5], "after {undos} undos");
        let texts = texts(&till.repo);
        assert_eq!(texts[2], "tool: paid 5 <c1 pay>", "after {undos} undos: {texts:?}");
    }
}

#[test]
fn a_second_run_waits_for_the_call_that_the_first_one_runs() {
    let till = approved(Till::slow(), pays(5).call("c2", "note", "{}"));
    let run = || block_on(till.next_process(&main_branch(), done(), registry()).run(None));
    std::thread::scope(|scope| {
        let first = scope.spawn(run);
        while till.paid() != [0, 5] {
            std::thread::yield_now();
        }
        let second = run();
        let first = first.join().unwrap();
        assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
    });
    let texts = texts(&till.repo);
    assert_eq!(till.paid(), [0, 5]);
    assert!(texts.contains(&"tool: paid 5 <c1 pay>".to_owned()), "{texts:?}");
    assert!(!texts.iter().any(|line| line.contains("interrupted")), "{texts:?}");
}

#[test]
fn an_approved_call_runs_after_any_other_call_of_its_turn() {
    let till = asked(Till::new(), call("c1", "note", "{}").call("c2", "pay", r#"{"sum":7}"#));
    assert_eq!(till.paid(), [0], "what needs no approval has run");
    till.approve_all();
    till.resume();
    assert_eq!(till.paid(), [0, 7]);
    assert_eq!(texts(&till.repo)[2..4], ["tool: noted <c1 note>", "tool: paid 7 <c2 pay>"]);
}

#[test]
fn an_idempotent_call_that_was_cut_off_may_have_run() {
    let till = Till::new();
    {
        let agent = till.agent([call("c1", "set", "{}")], registry());
        let run = std::pin::pin!(agent.run("go"));
        block_on(poll_until(run, || !till.paid().is_empty()));
    }
    till.resume();
    let text = &texts(&till.repo)[2];
    assert!(text.contains("may have run") && !text.contains("not executed"), "{text}");
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
    let till = Till::new();
    let agent =
        |says: Draft, repair: Meant| till.agent([says], registry()).repair(Arc::new(repair));
    waits(&agent(call("c1", "pay", r#"{"sum":"1"}"#), Meant("thousand", 1000)));
    till.approve_shown(r#"{"sum":1000}"#);
    // Another repair would make it something else.
    let second = agent(Draft::assistant("done"), Meant("million", 1_000_000));
    assert_eq!(run(&second, None).stop, Stop::Answered);
    assert_eq!(till.paid(), [1000]);
}

#[test]
fn arguments_that_a_handler_replaced_are_approved_once_and_run_as_shown() {
    let mut till = Till::new();
    till.repo = till.repo.with_hooks(Hooks::new().on("doubles", |event: &BeforeDispatch| {
        DispatchAction::Replace(format!(r#"{{"sum":{}}}"#, sum_of(&event.call.arguments) * 2))
    }));
    waits(&till.agent([pays(5)], registry()));
    till.approve_shown(r#"{"sum":10}"#);
    assert_eq!(run(&till.agent(done(), registry()), None).stop, Stop::Answered);
    assert_eq!(till.paid(), [10]);
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
    let spec = ToolSpec {
        traits: ToolTraits { destructive: true, ..ToolTraits::default() },
        ..ToolSpec::new("give", "Gives.", r#"{"type":"object"}"#)
    };
    tool_of(spec, |arguments, context| {
        context.resource::<Payments>()?.pay(sum_of(arguments));
        Ok(format!("gave {arguments}"))
    })
}

const GIVE: &str = r#"{"name":"give","description":"Gives.","parameters":{"type":"object",
    "properties":{"sum":{"type":"integer"},"word":{"type":"string"}},"required":["sum"]}}"#;

#[test]
fn a_call_sent_in_strict_mode_runs_once_it_is_approved_or_resumed() {
    for approve in [true, false] {
        let till = Till::new();
        let registry = || Registry::builder().definition_with(GIVE, give()).build().unwrap();
        let id = registry().iter().next().unwrap().definition().id();
        let sent = RequestTool {
            strict: true,
            null_for_absent: true,
            ..RequestTool::new("give", "give", id)
        };
        let agent = |says: Draft| {
            let model = Arc::new(Strict(Script::new([says]), sent.clone()));
            let agent = Agent::new(till.repo.clone(), main_branch(), model, registry());
            let agent = till.equip(agent).on_resume(OnResume::Run);
            if approve { agent.policy(ApprovalRequired::of_destructive()) } else { agent }
        };
        let first = agent(call("c1", "give", r#"{"sum":3,"word":null}"#));
        if approve {
            waits(&first);
            till.approve_all();
        } else {
            // The process ends right after the reply was recorded.
            let stop = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&stop);
            let first = first.on_progress(move |progress| {
                if matches!(progress, tract_run::Progress::Replied { .. }) {
                    seen.fetch_add(1, Ordering::SeqCst);
                    std::panic::resume_unwind(Box::new("the process ends"));
                }
            });
            let run = std::thread::spawn(move || block_on(first.run("go")).map(drop));
            assert!(run.join().is_err(), "it has ended");
            assert_eq!(stop.load(Ordering::SeqCst), 1);
        }
        assert_eq!(run(&agent(Draft::assistant("done")), None).stop, Stop::Answered);
        assert_eq!(till.paid(), [3], "{:?}", texts(&till.repo));
    }
}

const LISTED: &str = r#"{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"sum":{"type":"integer"}}}}"#;

/// A tool that a server lists.
fn remote(server: &'static str) -> Arc<dyn DynTool> {
    let definition = ToolSchema::parse(LISTED).unwrap();
    let spec = ToolSpec {
        traits: ToolTraits { destructive: true, ..ToolTraits::default() },
        origin: Some(ToolOrigin::new(server, definition)),
        ..ToolSpec::new("pay", "Pays.", r#"{"type":"object"}"#)
    };
    tool_of(spec, move |arguments, context| {
        context.resource::<Payments>()?.pay(sum_of(arguments));
        Ok(format!("paid by {server}"))
    })
}

#[test]
fn a_payment_approved_for_one_server_does_not_run_on_another() {
    for approval_wanted in [true, false] {
        let till = Till::new();
        let agent = |server, says: Draft, wanted: bool| {
            let registry = Registry::builder().definition_with(LISTED, remote(server));
            let agent = till.equip(agent_on(&till.repo, [says], registry.build().unwrap()));
            if wanted { agent.policy(ApprovalRequired::of_destructive()) } else { agent }
        };
        waits(&agent("sa", pays(5), true));
        till.approve_all();
        let report = run(&agent("sb", Draft::assistant("done"), approval_wanted), None);
        assert_eq!(till.paid(), [0; 0], "nothing was approved for sb");
        assert_eq!(report.stop, Stop::Waiting, "it has to be approved for sb");
        till.approve_all();
        let report = run(&agent("sb", Draft::assistant("done"), true), None);
        assert_eq!((report.stop, till.paid()), (Stop::Answered, vec![5]));
    }
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

fn later() -> Registry {
    Registry::builder().tool(Note).tool(PayLater).build().unwrap()
}

#[test]
fn a_true_answer_that_comes_late_takes_the_place_of_the_one_that_was_made_up() {
    let till = Till::new();
    let says = call("c1", "pay_later", "{}").call("c2", "note", "{}");
    let first = till.agent([says], later());
    let mut run_of_first = Box::pin(first.run("go"));
    let payments = &till.payments;
    block_on(poll_until(run_of_first.as_mut(), || payments.begun.load(Ordering::SeqCst) > 0));
    move_to_another_machine(&till.repo, true);
    let resume = |branch: &RefName| {
        assert_eq!(
            run(&till.next_process(branch, vec![Draft::assistant("sorry")], later()), None).stop,
            Stop::Answered
        );
        texts_on(&till.repo, branch)
    };
    // Another run, and one on a fork, find it dead.
    let branches = [main_branch(), till.fork("fork")];
    for branch in &branches {
        let texts = resume(branch);
        assert!(texts[2].contains("may have run"), "{texts:?}");
        assert!(texts[3].contains("not executed"), "{texts:?}");
    }
    // And then it answers.
    payments.go.store(1, Ordering::SeqCst);
    let error = block_on(run_of_first).unwrap_err();
    assert_eq!(error.code(), "held", "{error}");
    assert_eq!(till.paid(), [9], "what another run has answered since is not begun");
    for branch in &branches {
        let texts = texts_on(&till.repo, branch);
        assert!(texts.contains(&"tool: paid 9 at last <c1 pay_later>".to_owned()), "{texts:?}");
        assert!(!texts.iter().any(|line| line.contains("may have run")), "{texts:?}");
    }
    // A third branch knows it at once, and pays nothing.
    assert_eq!(resume(&till.fork("third"))[2], "tool: paid 9 at last <c1 pay_later>");
    assert_eq!(till.paid(), [9]);
}

#[test]
fn a_run_that_waits_too_long_says_who_it_waits_for_and_answers_nothing() {
    let till = Till::new();
    let agent = |says: Draft| {
        let says = [says, Draft::assistant("done")];
        till.agent(says, later()).wait_for_others(Duration::ZERO)
    };
    let first = agent(call("c1", "pay_later", "{}"));
    let mut run_of_first = Box::pin(first.run("go"));
    let payments = &till.payments;
    block_on(poll_until(run_of_first.as_mut(), || payments.begun.load(Ordering::SeqCst) > 0));
    let before = head(&till.repo);
    let (second, holders) = noting_holders(agent(Draft::assistant("done")));
    let error = block_on(second.run(None)).unwrap_err();
    assert_eq!(error.code(), "held");
    let process = format!("process {}", std::process::id());
    assert!(error.to_string().starts_with(&process), "{error}");
    assert!(holders.lock().unwrap()[0].starts_with(&process));
    assert_eq!(head(&till.repo), before, "nothing is written");
    payments.go.store(1, Ordering::SeqCst);
    assert_eq!(block_on(run_of_first).unwrap().stop, Stop::Answered);
    assert_eq!(till.paid(), [9]);
}

#[test]
fn a_run_that_lacks_the_approved_tool_leaves_the_call_open() {
    let till = approved(Till::new(), pays(5));
    let tools = Registry::builder().tool(Note).build().unwrap();
    let error = block_on(agent_on(&till.repo, done(), tools).run(None)).unwrap_err();
    assert_eq!(error.code(), "approved_tool", "{error}");
    till.resume();
    assert_eq!(till.paid(), [5], "with its tool it runs");
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
    let spec = ToolSpec { traits, ..ToolSpec::new(name, "Pays.", schema) };
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
    till: Till,
    model: Arc<Payer>,
    branches: Vec<RefName>,
}

impl Steps {
    fn agent(&self, branch: &RefName) -> Agent {
        let registry = Registry::builder()
            .tool(remit("remit", ToolTraits::default()))
            .tool(remit("pay_once", ToolTraits { destructive: true, ..ToolTraits::default() }))
            .build()
            .unwrap();
        let model = Arc::clone(&self.model) as Arc<dyn ChatModel>;
        self.till
            .equip(Agent::new(reopened(&self.till.repo), branch.clone(), model, registry))
            .policy(ApprovalRequired::of_destructive())
            .on_resume(OnResume::Run)
            .wait_for_others(Duration::ZERO)
    }

    fn step(&mut self, draws: &mut SeededRng) -> String {
        let branch = self.branches[draws.below(self.branches.len())].clone();
        let repo = reopened(&self.till.repo);
        match draws.below(8) {
            says @ (0 | 1) => {
                let message = (says == 0).then(|| Draft::user("pay"));
                let ran = block_on(self.agent(&branch).run(message));
                format!("run {branch}, said {}: {:?}", says == 0, ran.map(|report| report.stop))
            }
            2 => {
                // Killed after so many pauses of its tools.
                let polls = 1 + draws.below(4);
                let agent = self.agent(&branch);
                let mut run = Box::pin(agent.run("pay"));
                let mut left = polls;
                block_on(std::future::poll_fn(|task| {
                    left -= 1;
                    if run.as_mut().poll(task).is_ready() || left == 0 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                }));
                format!("kill on {branch} after {polls}")
            }
            3 | 4 => {
                self.till.approve_all();
                "approve".to_owned()
            }
            5 => format!("undo {branch}: {:?}", block_on(repo.undo(&branch)).map(|done| done.what)),
            6 => format!("redo {branch}: {:?}", block_on(repo.redo(&branch)).map(|done| done.what)),
            _ => {
                let Some(head) = block_on(repo.head_of(&branch)).unwrap() else {
                    return "nothing to fork".to_owned();
                };
                let page = block_on(tract_engine::log(&repo, head, 4)).unwrap();
                let at = page.commits[draws.below(page.commits.len())].id();
                let name = format!("fork-{}", self.branches.len());
                self.branches.push(block_on(repo.create_branch(&name, at)).unwrap());
                format!("fork of {branch} at {}", at.short())
            }
        }
    }
}

#[test]
fn no_effect_happens_twice_after_kills_approvals_undos_redos_and_forks() {
    let (mut paid, mut steps_taken) = (0, 0);
    for seed in 0..60 {
        let mut draws = SeededRng(seed);
        let model = Arc::new(Payer(AtomicUsize::new(1)));
        let mut steps = Steps { till: Till::new(), model, branches: vec![main_branch()] };
        let mut log = Vec::new();
        for _ in 0..24 {
            log.push(steps.step(&mut draws));
            steps_taken += 1;
            let mut sums = steps.till.paid();
            let all = sums.len();
            sums.sort_unstable();
            sums.dedup();
            assert_eq!(sums.len(), all, "seed {seed}: {log:#?}");
        }
        paid += steps.till.paid().len();
    }
    println!("{paid} payments in {steps_taken} steps");
    assert!(paid > 120, "{paid}");
}
