use tract_core::{Draft, RefName, block_on};
use tract_run::Stop;
use tract_tools::Registry;

use crate::effects::{Pay, Till};
use crate::support::{Look, call, fresh, main_branch, run, texts};

#[test]
fn calls_wait_across_restarts_until_a_decision() {
    let till = Till::new();
    let agent = |says: &[Draft]| {
        let registry = Registry::builder().tool(Pay).tool(Look).build().unwrap();
        till.next_process(&main_branch(), says.to_vec(), registry)
    };
    let asks = call("c1", "look", "{}").call("c2", "pay", r#"{"sum":5}"#);
    let first = agent(&[asks.call("c3", "pay", r#"{"sum":7}"#)]);
    let report = run(&first, "pay both");
    assert_eq!((report.stop, report.calls), (Stop::Waiting, 1));
    assert_eq!(report.pending.len(), 2);
    assert_eq!(till.paid(), [0; 0]);

    let waiting = block_on(till.repo.pending()).unwrap();
    let names: Vec<String> = waiting.iter().map(|waits| waits.request.describe()).collect();
    assert_eq!(names, [r#"pay({"sum":5})"#, r#"pay({"sum":7})"#]);

    // A restart changes nothing, and nothing can be said after open calls.
    let second = agent(&[]);
    assert_eq!(run(&second, None).stop, Stop::Waiting);
    assert_eq!(block_on(second.run("hurry")).unwrap_err().code(), "calls_wait");

    block_on(till.repo.approve(&waiting[0].id)).unwrap();
    let report = run(&agent(&[]), None);
    assert_eq!((report.stop, report.calls, report.pending.len()), (Stop::Waiting, 1, 1));
    assert_eq!(till.paid(), [5], "what was approved is paid, once");

    block_on(till.repo.reject(&waiting[1].id, "too much")).unwrap();
    let report = run(&agent(&[Draft::assistant("5 is paid")]), None);
    assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "5 is paid"));
    assert_eq!(till.paid(), [5]);
    assert_eq!(
        texts(&till.repo)[2..],
        [
            "tool: seen <c1 look>",
            "tool: paid 5 <c2 pay>",
            "tool: rejected: too much <c3! pay>",
            "assistant: 5 is paid"
        ]
    );
}

#[test]
fn an_operation_whose_name_an_older_decision_has_can_be_decided() {
    let repo = fresh();
    let defer = |text: &str| {
        let request = tract_engine::PendingRequest::Append(Box::new(Draft::user(text)));
        block_on(repo.defer(&main_branch(), request, "tester", "look at it")).unwrap().id
    };
    let first = defer("one");
    assert_eq!(first.len(), "p-".len() + 16, "64 bits");
    block_on(repo.approve(&first)).unwrap();
    let second = defer("two");
    // The name was given before, and its decision is kept for ever.
    let decisions = block_on(repo.documents("decisions/")).unwrap();
    let name = RefName::new(format!("decisions/{second}")).unwrap();
    block_on(repo.set_documents("test", vec![(name, decisions[0].1.clone())])).unwrap();
    let decided = block_on(repo.approve(&second)).unwrap();
    assert_eq!(decided.record.pending.as_deref(), Some(second.as_str()));
    assert_eq!(texts(&repo), ["user: one", "user: two"]);
    assert!(block_on(repo.pending()).unwrap().is_empty());
    assert_eq!(block_on(repo.decisions()).unwrap().len(), 3, "nothing is written over");
}
