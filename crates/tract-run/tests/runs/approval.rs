use std::sync::Arc;

use tract_core::{Draft, RefName, Store, block_on};
use tract_run::{Agent, Stop};
use tract_tools::Registry;

use crate::effects::{Pay, Payments, agent_of};
use crate::support::{Look, main_branch, memory, messages, repo_on, texts};

fn asks() -> Draft {
    Draft::assistant("").call("c1", "look", "{}").call("c2", "pay", r#"{"sum":5}"#).call(
        "c3",
        "pay",
        r#"{"sum":7}"#,
    )
}

/// An agent as a fresh process has it.
async fn agent(store: &Arc<dyn Store>, payments: &Arc<Payments>, says: Vec<Draft>) -> Agent {
    let registry = Registry::builder().tool(Pay).tool(Look).build().unwrap();
    agent_of(&repo_on(store).await, &main_branch(), says, registry, payments)
}

#[test]
fn calls_wait_across_restarts_until_a_decision() {
    block_on(async {
        let (store, payments) = (memory(), Arc::new(Payments::default()));
        let first = agent(&store, &payments, vec![asks()]).await;
        let report = first.run(Some(Draft::user("pay both"))).await.unwrap();
        assert_eq!((report.stop, report.calls), (Stop::Waiting, 1));
        assert_eq!(report.pending.len(), 2);
        assert_eq!(payments.paid(), [0; 0]);

        let repo = repo_on(&store).await;
        let waiting = repo.pending().await.unwrap();
        let names: Vec<String> = waiting.iter().map(|waits| waits.request.describe()).collect();
        assert_eq!(names, [r#"pay({"sum":5})"#, r#"pay({"sum":7})"#]);

        // A restart changes nothing, and nothing can be said after open calls.
        let second = agent(&store, &payments, vec![]).await;
        assert_eq!(second.run(None).await.unwrap().stop, Stop::Waiting);
        let error = second.run(Some(Draft::user("hurry"))).await.unwrap_err();
        assert_eq!(error.code(), "calls_wait");

        repo.approve(&waiting[0].id).await.unwrap();
        let third = agent(&store, &payments, vec![]).await;
        let report = third.run(None).await.unwrap();
        assert_eq!((report.stop, report.calls, report.pending.len()), (Stop::Waiting, 1, 1));
        assert_eq!(payments.paid(), [5], "what was approved is paid, once");

        repo.reject(&waiting[1].id, "too much").await.unwrap();
        let last = agent(&store, &payments, vec![Draft::assistant("5 is paid")]).await;
        let report = last.run(None).await.unwrap();
        assert_eq!((report.stop, report.text.as_str()), (Stop::Answered, "5 is paid"));
        assert_eq!(payments.paid(), [5]);
        let texts = texts(&messages(&repo).await);
        assert_eq!(
            texts[2..],
            [
                "tool: seen <c1 look>",
                "tool: paid 5 <c2 pay>",
                "tool: rejected: too much <c3! pay>",
                "assistant: 5 is paid"
            ]
        );
    });
}

#[test]
fn an_operation_whose_name_an_older_decision_has_can_be_decided() {
    block_on(async {
        let repo = repo_on(&memory()).await;
        let defer = async |text: &str| {
            let request = tract_engine::PendingRequest::Append(Box::new(Draft::user(text)));
            repo.defer(&main_branch(), request, "tester", "look at it").await.unwrap().id
        };
        let first = defer("one").await;
        assert_eq!(first.len(), "p-".len() + 16, "64 bits");
        repo.approve(&first).await.unwrap();
        let second = defer("two").await;
        // The name was given before, and its decision is kept for ever.
        let decisions = repo.documents("decisions/").await.unwrap();
        let name = RefName::new(format!("decisions/{second}")).unwrap();
        repo.set_documents("test", vec![(name, decisions[0].1.clone())]).await.unwrap();
        let decided = repo.approve(&second).await.unwrap();
        assert_eq!(decided.record.pending.as_deref(), Some(second.as_str()));
        assert_eq!(texts(&messages(&repo).await), ["user: one", "user: two"]);
        assert!(repo.pending().await.unwrap().is_empty());
        assert_eq!(repo.decisions().await.unwrap().len(), 3, "nothing is written over");
    });
}
