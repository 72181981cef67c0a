use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Seen(String);
impl SessionItem for Seen {
    const NAME: &'static str = "seen";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Total {
    of: String,
    sum: i64,
}
impl SessionItem for Total {
    const NAME: &'static str = "total";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Booked {
    of: String,
    amount: Option<i64>,
}
impl SessionItem for Booked {
    const NAME: &'static str = "booked";
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Impostor(u8);
impl SessionItem for Impostor {
    const NAME: &'static str = "seen";
}

fn booked(of: &str, amount: Option<i64>) -> Booked {
    Booked { of: of.to_owned(), amount }
}

fn books() -> Session {
    let session = Session::new();
    // A reducer has to cope with a value that is none.
    let add = |slice: &[Total], event: &Booked| match event.amount {
        None => SliceOp::Keep,
        Some(amount) => {
            let known = slice.iter().find(|total| total.of == event.of);
            let sum = known.map_or(0, |total| total.sum) + amount;
            upsert_by(|total: &Total| total.of.clone())(slice, &Total { of: event.of.clone(), sum })
        }
    };
    session.on(add).unwrap();
    session
}

#[test]
fn an_event_without_a_reducer_is_appended() {
    let session = Session::new();
    session.publish(&Seen("a".into())).unwrap();
    session.publish(&Seen("b".into())).unwrap();
    assert_eq!(*session.all::<Seen>().unwrap(), [Seen("a".into()), Seen("b".into())]);
    assert_eq!(session.latest::<Seen>(), Some(Seen("b".into())));
    assert_eq!(session.latest::<Total>(), None);
}

#[test]
fn an_event_with_a_reducer_is_not_appended() {
    let session = books();
    session.publish(&booked("rent", Some(5))).unwrap();
    assert!(session.all::<Booked>().unwrap().is_empty());
    session.on(append::<Booked>).unwrap();
    session.publish(&booked("rent", Some(2))).unwrap();
    assert_eq!(session.all::<Booked>().unwrap().len(), 1, "both reducers ran");
    assert_eq!(session.latest::<Total>().unwrap().sum, 7);
}

#[test]
fn upsert_moves_to_the_end_and_none_changes_nothing() {
    let session = books();
    for event in [booked("a", Some(1)), booked("b", Some(1)), booked("a", Some(1))] {
        session.publish(&event).unwrap();
    }
    let names: Vec<String> =
        session.all::<Total>().unwrap().iter().map(|total| total.of.clone()).collect();
    assert_eq!(names, ["b", "a"]);
    let before = session.revisions();
    session.publish(&booked("a", None)).unwrap();
    assert_eq!(session.revisions(), before);
}

#[test]
fn restore_takes_state_back_and_leaves_logs() {
    let session = books();
    session.log::<Seen>().unwrap();
    session.publish(&booked("a", Some(1))).unwrap();
    session.publish(&Seen("before".into())).unwrap();
    let before = session.snapshot();
    session.publish(&booked("a", Some(9))).unwrap();
    session.publish(&Seen("after".into())).unwrap();
    session.publish(&Impossible).unwrap();
    session.restore(&before);
    assert_eq!(session.latest::<Total>().unwrap().sum, 1);
    assert_eq!(session.all::<Seen>().unwrap().len(), 2, "a log is kept");
    assert!(session.all::<Impossible>().unwrap().is_empty(), "a slice made since is empty");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Impossible;
impl SessionItem for Impossible {
    const NAME: &'static str = "impossible";
}

#[test]
fn a_reducer_that_panics_changes_nothing() {
    let session = books();
    session.on(|_: &[Seen], _: &Booked| -> SliceOp<Seen> { panic!("on purpose") }).unwrap();
    let published = {
        let session = session.clone();
        std::thread::spawn(move || session.publish(&booked("a", Some(1)))).join()
    };
    assert!(published.is_err());
    assert!(session.all::<Total>().unwrap().is_empty(), "the reducer before it did not count");
}

#[test]
fn one_name_is_one_type() {
    let session = Session::new();
    session.publish(&Seen("a".into())).unwrap();
    let error = session.publish(&Impostor(1)).unwrap_err();
    assert_eq!(error.code(), "name_taken");
    assert_eq!(session.all::<Seen>().unwrap().len(), 1);
}

#[test]
fn slices_travel_as_json_to_another_session() {
    let session = books();
    session.publish(&booked("ä", Some(-3))).unwrap();
    session.publish(&Seen("x".into())).unwrap();
    let stored = session.to_json().unwrap();
    assert_eq!(stored["total"].as_str(), r#"[{"of":"ä","sum":-3}]"#);

    let other = books();
    other.publish(&booked("gone", Some(1))).unwrap();
    other.from_json(&stored).unwrap();
    assert_eq!(other.to_json().unwrap(), stored, "also what no type has claimed");
    assert_eq!(other.latest::<Seen>(), Some(Seen("x".into())), "claimed now");
    assert_eq!(other.all::<Total>().unwrap(), session.all::<Total>().unwrap());

    let damaged = BTreeMap::from([("total".to_owned(), JsonText::new("[1]").unwrap())]);
    assert_eq!(other.from_json(&damaged).unwrap_err().code(), "shape");
    assert_eq!(other.to_json().unwrap(), stored, "a refusal changes nothing");
}

#[test]
fn the_value_of_a_failure_reaches_no_slice() {
    let session = books();
    session.route::<Total>("account").unwrap();
    let value = JsonText::new(r#"{"of":"a","sum":4}"#).unwrap();
    session.deliver("account", false, Some(&value)).unwrap();
    session.deliver("account", true, None).unwrap();
    session.deliver("account", true, Some(&JsonText::new("null").unwrap())).unwrap();
    session.deliver("other", true, Some(&value)).unwrap();
    assert!(session.all::<Total>().unwrap().is_empty());
    session.deliver("account", true, Some(&value)).unwrap();
    assert_eq!(session.latest::<Total>().unwrap().sum, 4);
    let odd = JsonText::new("7").unwrap();
    assert_eq!(session.deliver("account", true, Some(&odd)).unwrap_err().code(), "shape");
}

#[test]
fn seed_clear_and_reset_keep_what_was_registered() {
    let session = books();
    let totals = ["a", "b"].map(|of| Total { of: of.into(), sum: 1 });
    session.seed(totals.to_vec()).unwrap();
    session.clear::<Total>(|total| total.of == "a").unwrap();
    assert_eq!(*session.all::<Total>().unwrap(), totals[1..]);
    session.reset();
    assert!(session.all::<Total>().unwrap().is_empty());
    session.publish(&booked("c", Some(2))).unwrap();
    assert_eq!(session.latest::<Total>().unwrap().sum, 2);
}

#[test]
fn only_what_is_new_of_a_log_is_written() {
    let session = Session::new();
    session.log::<Seen>().unwrap();
    for name in ["a", "b", "c"] {
        session.publish(&Seen(name.into())).unwrap();
    }
    let documents = session.documents(|_| 2).unwrap();
    assert_eq!(documents[0].items, [JsonText::new(r#""c""#).unwrap()]);
    assert_eq!((documents[0].length, documents[0].policy), (3, SlicePolicy::Log));
}
