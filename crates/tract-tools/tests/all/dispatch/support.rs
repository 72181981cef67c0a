//! A session, tools that do what a test says, and faults.

use std::collections::BTreeMap;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tract_core::{CancellationToken, ManualClock, block_on};
use tract_tools::dispatch::{
    CallAnswer, CallContext, DispatchOptions, Dispatched, Dispatcher, Outcome, ToolInvoked, Turn,
};
use tract_tools::event::{Event, EventSink, EventType};
use tract_tools::fs::{Filesystem, FsPath, MemoryFs, bind};
use tract_tools::resource::{Binding, Resources};
use tract_tools::snapshot::{BoxError, SavedState, Snapshot};
use tract_tools::typed::ClosureTool;
use tract_tools::{
    DynTool, Registry, RenderedValue, ToolContext, ToolError, ToolResult, ToolSpec, ToolTraits,
};

/// How something breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Error,
    Panic,
    /// Time is over when it returns.
    Timeout,
    /// The turn is cancelled when it returns.
    Cancel,
}

pub(crate) const FAULTS: [Fault; 4] = [Fault::Error, Fault::Panic, Fault::Timeout, Fault::Cancel];

/// A fault that something runs into once, at its nth use.
#[derive(Clone, Debug)]
pub(crate) struct Trap {
    fault: Option<(Fault, usize)>,
    uses: Arc<AtomicUsize>,
    clock: ManualClock,
    token: CancellationToken,
}

impl Trap {
    pub(crate) fn new(host: &Host, fault: Option<(Fault, usize)>) -> Self {
        let (clock, token) = (host.clock.clone(), host.token.clone());
        Self { fault, uses: Arc::default(), clock, token }
    }

    pub(crate) fn spring(&self) -> Result<(), BoxError> {
        let uses = self.uses.fetch_add(1, Ordering::SeqCst);
        match self.fault {
            Some((fault, at)) if at == uses => match fault {
                Fault::Error => return Err("the secret reason".into()),
                Fault::Panic => panic!("the secret reason"),
                Fault::Timeout => self.clock.advance(Duration::from_secs(3600)),
                Fault::Cancel => self.token.cancel(),
            },
            _ => {}
        }
        Ok(())
    }
}

/// What tools tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct NotedEvent(pub(crate) String);

impl EventType for NotedEvent {
    const KIND: &'static str = "noted";
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inner {
    /// STATE: put back when a call fails.
    pub(crate) notes: Vec<String>,
    /// LOG: kept. The events, and how calls ended.
    pub(crate) log: Vec<String>,
}

/// A session with a state and a log.
pub(crate) struct TestSession {
    pub(crate) inner: Mutex<Inner>,
    pub(crate) on_snapshot: Trap,
    pub(crate) on_restore: Trap,
    /// Before a note is taken in.
    pub(crate) on_note: Trap,
    /// Before the news of a call's end is.
    pub(crate) on_invoked: Trap,
}

impl TestSession {
    pub(crate) fn new(host: &Host) -> Self {
        let never = || Trap::new(host, None);
        Self {
            inner: Mutex::default(),
            on_snapshot: never(),
            on_restore: never(),
            on_note: never(),
            on_invoked: never(),
        }
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.inner.lock().unwrap().notes.clone()
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.inner.lock().unwrap().log.clone()
    }
}

impl Snapshot for TestSession {
    fn name(&self) -> &str {
        "session"
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        self.on_snapshot.spring()?;
        Ok(SavedState::new(self.notes()))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        self.on_restore.spring()?;
        self.inner.lock().unwrap().notes = saved.take()?;
        Ok(())
    }
}

impl EventSink for TestSession {
    fn publish(&self, event: &Event) -> Result<(), BoxError> {
        if let Some(NotedEvent(text)) = event.get() {
            self.on_note.spring()?;
            let mut inner = self.inner.lock().unwrap();
            inner.notes.push(text.clone());
            inner.log.push(text.clone());
        }
        if let Some(invoked) = event.get::<ToolInvoked>() {
            self.on_invoked.spring()?;
            let line = format!("{} {}", invoked.call_id, invoked.outcome);
            self.inner.lock().unwrap().log.push(line);
        }
        Ok(())
    }
}

/// What a call tells its tool to do.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Act {
    Ok,
    Value {
        value: serde_json::Value,
    },
    NotDone,
    Validation,
    Expansion,
    Evaluation,
    Deadline,
    Type,
    Other,
    Retryable {
        times: u32,
    },
    Panic,
    /// Waits for ever.
    Hang,
    /// Waits until it is cancelled, then says so.
    HangPolitely,
    /// Waits this often for its turn.
    Slow {
        polls: usize,
    },
    Cancel,
    PerCall,
}

/// A tool that notes what it is called with, writes a file, and then does what its arguments say.
pub(crate) struct Scripted {
    pub(crate) name: &'static str,
    pub(crate) traits: ToolTraits,
    pub(crate) timeout: Option<Duration>,
    pub(crate) trap: Option<Trap>,
    pub(crate) runs: Arc<AtomicUsize>,
    pub(crate) token: CancellationToken,
}

#[async_trait]
impl DynTool for Scripted {
    fn spec(&self) -> ToolSpec {
        let schema = r#"{"type":"object","properties":{"do":{"type":"string"}},"required":["do"]}"#;
        let mut spec = ToolSpec {
            traits: self.traits,
            ..ToolSpec::new(self.name, "Does what its arguments say.", schema)
        };
        spec.timeout = self.timeout;
        spec
    }

    async fn run(
        &self,
        arguments: &str,
        context: &ToolContext,
    ) -> Result<ToolResult<RenderedValue>, ToolError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        context.publish(NotedEvent(context.call_id().to_owned()))?;
        if !self.traits.read_only {
            let path = FsPath::parse(&format!("calls/{}", context.call_id()))?;
            context.filesystem()?.write(&path, arguments.as_bytes())?;
        }
        if let Some(trap) = &self.trap {
            trap.spring().map_err(|error| ToolError::other("it broke").caused_by(error))?;
        }
        let done = || Ok(ToolResult::done(format!("done {}", context.call_id())));
        let act: Act = serde_json::from_str(arguments)?;
        match act {
            Act::Ok => done(),
            Act::Value { value } => Ok(ToolResult {
                message: "see".to_owned(),
                ..ToolResult::ok(RenderedValue::of(&value)?)
            }),
            Act::NotDone => {
                let value = RenderedValue::of("half of it")?;
                Ok(ToolResult {
                    value: Some(value),
                    operator: Some("the disk is full".to_owned()),
                    ..ToolResult::error("not done")
                })
            }
            Act::Validation => Err(ToolError::validation("expected another city").at("city")),
            Act::Expansion => Err(ToolError::visibility_expansion(["rules"], "show me the rules")),
            Act::Evaluation => Err(ToolError::evaluation("nothing can continue")),
            Act::Deadline => Err(ToolError::deadline_exceeded("no time left")),
            Act::Type => Err(ToolError::type_error("expected a number, found text")),
            Act::Other => {
                let cause = std::io::Error::other("the secret reason");
                Err(ToolError::other("it did not work").caused_by(cause))
            }
            Act::Retryable { times } if context.attempt() <= times => {
                Err(ToolError::other("not now").retryable())
            }
            Act::Retryable { .. } => done(),
            Act::Panic => panic!("the secret reason"),
            Act::Hang => pending().await,
            Act::HangPolitely => {
                context.cancellation().cancelled().await;
                Err(ToolError::evaluation("stopped in good order"))
            }
            Act::Slow { polls } => {
                for _ in 0..polls {
                    yield_once().await;
                }
                done()
            }
            Act::Cancel => {
                self.token.cancel();
                pending().await
            }
            Act::PerCall => {
                context.resources()?.get::<Lock>()?;
                done()
            }
        }
    }
}

/// Counts how many handlers run at a time, and knows in which order they ended.
#[derive(Clone, Default)]
pub(crate) struct Gauge {
    running: Arc<AtomicUsize>,
    pub(crate) most: Arc<AtomicUsize>,
    pub(crate) ran: Arc<AtomicUsize>,
    pub(crate) ended: Arc<Mutex<Vec<String>>>,
    /// While this is set, no handler ends.
    pub(crate) closed: Arc<AtomicBool>,
}

/// A tool that takes a while: as many polls as its arguments say, else five.
pub(crate) fn gauged(name: &str, traits: ToolTraits, gauge: &Gauge) -> ClosureTool {
    let schema = r#"{"type":"object","properties":{"polls":{"type":"integer"}}}"#;
    let spec = ToolSpec { traits, ..ToolSpec::new(name, "Takes a while.", schema) };
    let gauge = gauge.clone();
    ClosureTool::new(spec, move |arguments, context| {
        let gauge = gauge.clone();
        async move {
            gauge.ran.fetch_add(1, Ordering::SeqCst);
            let running = gauge.running.fetch_add(1, Ordering::SeqCst) + 1;
            gauge.most.fetch_max(running, Ordering::SeqCst);
            let mut left = arguments["polls"].as_u64().unwrap_or(5);
            while left > 0 || gauge.closed.load(Ordering::SeqCst) {
                yield_once().await;
                left = left.saturating_sub(1);
            }
            gauge.running.fetch_sub(1, Ordering::SeqCst);
            gauge.ended.lock().unwrap().push(context.call_id().to_owned());
            Ok(ToolResult::<()>::done(context.call_id()))
        }
    })
}

pub(crate) type Turns<'a> = Vec<Pin<Box<dyn Future<Output = Dispatched> + 'a>>>;

/// Polls all of them in turn until all are done; tells each end.
pub(crate) fn together(mut turns: Turns<'_>, ended: impl Fn(usize)) -> Vec<Dispatched> {
    let mut done: Vec<Option<Dispatched>> = turns.iter().map(|_| None).collect();
    block_on(poll_fn(|task| {
        for (place, turn) in turns.iter_mut().enumerate() {
            if done[place].is_none()
                && let Poll::Ready(dispatched) = turn.as_mut().poll(task)
            {
                done[place] = Some(dispatched);
                ended(place);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }));
    done.into_iter().flatten().collect()
}

pub(crate) async fn yield_once() {
    let mut yielded = false;
    poll_fn(|task| {
        if std::mem::replace(&mut yielded, true) {
            Poll::Ready(())
        } else {
            task.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Made for each call.
pub(crate) struct Lock;

/// Everything that a turn uses.
pub(crate) struct Host {
    pub(crate) clock: ManualClock,
    pub(crate) token: CancellationToken,
    pub(crate) files: Arc<MemoryFs>,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            clock: ManualClock::at_us(1_000_000),
            token: CancellationToken::new(),
            files: Arc::new(MemoryFs::of([("readme.md", "hello")]).unwrap()),
            runs: Arc::default(),
        }
    }

    pub(crate) fn with_session() -> (Self, Arc<TestSession>) {
        let host = Self::new();
        let session = Arc::new(TestSession::new(&host));
        (host, session)
    }

    pub(crate) fn tool(&self, name: &'static str, traits: ToolTraits) -> Scripted {
        Scripted {
            name,
            traits,
            timeout: None,
            trap: None,
            runs: Arc::clone(&self.runs),
            token: self.token.clone(),
        }
    }

    /// `act` changes things, `look` reads only, `put` is idempotent, `hurry` has little time.
    pub(crate) fn registry(&self) -> Registry {
        let hurry = Scripted {
            timeout: Some(Duration::from_millis(2)),
            ..self.tool("hurry", ToolTraits::default())
        };
        Registry::builder()
            .tool(self.tool("act", ToolTraits::default()))
            .tool(self.tool("look", ToolTraits::READ_ONLY))
            .tool(self.tool("put", ToolTraits { idempotent: true, ..ToolTraits::default() }))
            .tool(hurry)
            .build()
            .unwrap()
    }

    pub(crate) fn dispatcher(&self) -> Dispatcher {
        let options = DispatchOptions {
            attempts: 3,
            backoff: Duration::ZERO,
            grace: Duration::ZERO,
            ..DispatchOptions::default()
        };
        Dispatcher { options, ..Dispatcher::new(Arc::new(self.registry())) }
    }

    pub(crate) fn resources(&self, close: Trap, make: Trap) -> Arc<Resources> {
        let lock = Binding::per_call(move |_| {
            make.spring()?;
            Ok::<_, BoxError>(Arc::new(Lock))
        });
        let lock = lock.close(move |_| close.spring());
        let files: Arc<dyn Filesystem> = self.files.clone();
        Arc::new(Resources::builder().bind(bind(files)).bind(lock).build().unwrap())
    }

    /// A turn with an hour less a bit, and a session.
    pub(crate) fn turn(&self, session: &Arc<TestSession>) -> Turn {
        let context = ToolContext::new("")
            .with_cancellation(self.token.clone())
            .with_clock(Arc::new(self.clock.clone()))
            .with_deadline_us(3_000_000_000);
        let never = || Trap::new(self, None);
        Turn {
            context,
            session: Some(session.clone()),
            resources: Some(self.resources(never(), never())),
            ..Turn::default()
        }
    }

    /// Every file, with what it holds.
    pub(crate) fn all_files(&self) -> BTreeMap<String, Vec<u8>> {
        let calls = FsPath::parse("calls").unwrap();
        let mut found = BTreeMap::new();
        let listed = self.files.list(&calls).unwrap_or_default();
        for entry in listed.into_iter().chain(self.files.list(&FsPath::root()).unwrap()) {
            if !entry.is_directory {
                let bytes = self.files.read(&FsPath::parse(&entry.path).unwrap()).unwrap();
                found.insert(entry.path, bytes);
            }
        }
        found
    }
}

pub(crate) fn call(id: &str, name: &str, act: &Act) -> tract_tools::Call {
    tract_tools::Call::new(id, name, serde_json::to_string(act).unwrap())
}

pub(crate) fn outcomes(turn: &Dispatched) -> Vec<Outcome> {
    turn.answers.iter().map(CallAnswer::outcome).collect()
}

/// The ids of the calls whose answers are wanted.
pub(crate) fn ids(turn: &Dispatched, wanted: fn(&CallAnswer) -> bool) -> Vec<String> {
    let answers = turn.answers.iter().filter(|answer| wanted(answer));
    answers.map(|answer| answer.call_id.clone()).collect()
}
