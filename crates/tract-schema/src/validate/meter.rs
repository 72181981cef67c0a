//! Counts the cost of validating arguments, and stops a check that costs too much.
//!
//! The validator reads arguments through [`MeteredValue`] nodes. Each read costs steps, and each
//! error costs bytes. Once an allowance is used up, every node looks like a `null` without content,
//! so that all loops over the arguments end, and results after that are discarded. Recursion over
//! the schema does not end that way, so a check that keeps reading is aborted by unwinding. No work
//! is uncounted: subschemas that apply several others to one value read it first (see
//! [`measure_counting_branches`](crate::limits::measure_counting_branches)).
//!
//! The counters are thread-local, because the validator creates nodes for property names without
//! any context to pass a counter in. This is sound only because a check starts and ends on one
//! thread and never runs callers' code: a nested check would reset the counters of the outer one.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;
use std::time::{Duration, Instant};

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, SerdeJson, cmp};
use jsonschema_value::LazyInstance;
use serde_json::{Map, Number, Value, map};

/// Placeholder for a value in an error. Errors are cloned into those of `anyOf`, so they must not
/// contain parts of the arguments. The error's path locates the value.
const PRESENT: &Value = &Value::Null;

/// Placeholder for the value in errors created after an allowance was used up.
const STOPPED: &Value = &Value::Bool(true);

/// Size of an error without its texts, in bytes.
const ERROR_BYTES: u64 = 512;

/// Number of pattern states that cost one step per byte of text.
const STATES_PER_STEP: u64 = 8;

/// Number of steps between two reads of the clock.
const STEPS_PER_LOOK: u64 = 1 << 12;

/// Reads after a check was stopped until it is aborted. Loops end within fewer reads, so a check
/// that only has to leave its loops keeps the errors found before.
const LATE_READS: u64 = 1 << 14;

/// Payload of the panic that aborts a check.
struct Aborted;

/// The reason that a check ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Steps,
    Bytes,
    Time,
}

/// The limits of one check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) steps: u64,
    pub(super) time: Duration,
    /// States of the largest pattern that texts are matched against; 0 without patterns.
    pub(super) pattern_states: u64,
    /// Maximum bytes of all errors, and bytes of text in each of them; `None` if no errors are
    /// created.
    pub(super) errors: Option<(u64, u64)>,
}

#[derive(Default)]
struct Meter {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    pattern_states: Cell<u64>,
    error_bytes: Cell<u64>,
    makes_errors: Cell<bool>,
    until: Cell<Option<Instant>>,
    stop: Cell<Option<Stop>>,
    /// Reads since the check was stopped.
    late_reads: Cell<u64>,
}

thread_local! {
    static METER: Meter = Meter::default();
}

/// The outcome of a check.
pub(super) struct Metered<T> {
    /// The result; `None` if the check was aborted.
    pub(super) result: Option<T>,
    /// The reason that it was stopped, if it was.
    pub(super) stop: Option<Stop>,
    /// Number of steps taken, including reads after it was stopped.
    pub(super) steps: u64,
}

/// Runs a check within an allowance.
pub(super) fn metered<T>(allowance: Allowance, check: impl FnOnce() -> T) -> Metered<T> {
    METER.with(|meter| {
        // All counters are set, since an aborted check leaves any values behind.
        meter.steps.set(allowance.steps);
        meter.pattern_states.set(allowance.pattern_states);
        meter.until.set(Instant::now().checked_add(allowance.time));
        meter.stop.set(None);
        meter.late_reads.set(0);
        let (bytes, texts) = allowance.errors.unwrap_or((u64::MAX, 0));
        meter.bytes.set(bytes);
        meter.error_bytes.set(texts.saturating_add(ERROR_BYTES));
        meter.makes_errors.set(allowance.errors.is_some());
    });
    let checked = match catch_unwind(AssertUnwindSafe(check)) {
        Ok(checked) => Some(checked),
        Err(payload) if payload.is::<Aborted>() => None,
        // A panic of the validator itself is not the schema's fault, and is reported as what it is.
        Err(payload) => resume_unwind(payload),
    };
    METER.with(|meter| {
        let spent = allowance.steps.saturating_sub(meter.steps.get());
        let steps = spent.saturating_add(meter.late_reads.get());
        Metered { result: checked, stop: meter.stop.take(), steps }
    })
}

/// Returns whether an error was created before the allowance ran out. All others are meaningless.
pub(super) fn is_true(error: &jsonschema::ValidationError<'_>) -> bool {
    let instance: &Value = error.instance();
    instance != STOPPED
}

impl Meter {
    fn spend(&self, steps: u64) -> bool {
        let before = self.steps.get();
        self.pay(&self.steps, steps, Stop::Steps);
        // Reading the clock at every step would cost more than the step.
        let look = before / STEPS_PER_LOOK != self.steps.get() / STEPS_PER_LOOK;
        if look && self.until.get().is_some_and(|until| Instant::now() >= until) {
            self.stop.set(Some(Stop::Time));
        }
        self.stop.get().is_none()
    }

    fn take(&self, bytes: u64) -> bool {
        self.pay(&self.bytes, bytes, Stop::Bytes);
        self.stop.get().is_none()
    }

    /// Deducts an amount. Stops the check if not enough is left, and aborts it if it continues to
    /// read for long after that.
    fn pay(&self, from: &Cell<u64>, amount: u64, stop: Stop) {
        if self.stop.get().is_some() {
            self.late_reads.set(self.late_reads.get() + 1);
            if self.late_reads.get() > LATE_READS {
                // `resume_unwind` skips the panic hook, because this is not a bug.
                resume_unwind(Box::new(Aborted));
            }
            return;
        }
        match from.get().checked_sub(amount) {
            Some(left) => from.set(left),
            None => self.stop.set(Some(stop)),
        }
    }
}

fn spend(steps: u64) -> bool {
    METER.with(|meter| meter.spend(steps))
}

fn is_stopped() -> bool {
    METER.with(|meter| meter.stop.get().is_some())
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// Returns the steps of comparing or copying a text.
fn steps_of(text: &str) -> u64 {
    1 + length(text) / 64
}

/// Spends the steps of matching a text against patterns.
fn spend_on_match(text: &str) -> bool {
    METER.with(|meter| {
        let of_pattern = length(text).saturating_mul(meter.pattern_states.get());
        meter.spend(steps_of(text).saturating_add(of_pattern / STATES_PER_STEP))
    })
}

/// Returns the size of a value, for the cost of copying it.
fn weight(value: &Value) -> u64 {
    let inner = match value {
        Value::String(text) => length(text),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(key, one)| length(key) + weight(one)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inner.saturating_add(16)
}

/// A JSON implementation that counts reads.
pub(super) struct MeteredJson;

/// A value of the arguments, or a property name.
#[derive(Clone, Copy)]
pub(super) struct MeteredValue<'a> {
    value: &'a Value,
    is_name: bool,
}

impl<'a> MeteredValue<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        Self { value, is_name: false }
    }

    /// Returns the value and spends one step.
    fn read(&self) -> &'a Value {
        if spend(1) { self.value } else { PRESENT }
    }
}

impl Json for MeteredJson {
    type Node<'a> = MeteredValue<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    const KEYS_PER_LOOKUP: usize = SerdeJson::KEYS_PER_LOOKUP;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        run: impl FnOnce(MeteredValue<'_>) -> T,
    ) -> T {
        spend(steps_of(string));
        SerdeJson::with_string_node(buffer, string, |value| {
            run(MeteredValue { value, is_name: true })
        })
    }
}

impl<'a> Node<'a, MeteredJson> for MeteredValue<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        self.read().as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        self.read().as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.read().as_str()?;
        spend_on_match(text).then_some(Cow::Borrowed(text))
    }

    fn as_number(&self) -> Option<&'a Number> {
        self.read().as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        self.read().as_bool()
    }

    fn is_null(&self) -> bool {
        self.read().is_null()
    }

    fn json_type(&self) -> JsonType {
        Node::json_type(&self.read())
    }

    fn string_length(&self) -> Option<u64> {
        let value = self.read();
        spend(steps_of(value.as_str()?)).then(|| Node::string_length(&value)).flatten()
    }

    fn equals_value(&self, expected: &Value) -> bool {
        equal(self.value, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        let copied = |meter: &Meter| {
            let weight = weight(self.value);
            meter.spend(weight / 16) && (!meter.makes_errors.get() || meter.take(weight))
        };
        Cow::Borrowed(if METER.with(copied) { self.value } else { PRESENT })
    }

    fn lazy_value(&self) -> LazyInstance<'a> {
        let name = if self.is_name { weight(self.value) } else { 0 };
        let taken = METER.with(|meter| meter.take(meter.error_bytes.get().saturating_add(name)));
        let instance = match (taken, self.is_name) {
            (false, _) => STOPPED,
            (true, true) => self.value,
            (true, false) => PRESENT,
        };
        instance.into()
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Node::identity(&self.value)
    }
}

/// Compares values as JSON Schema does: `1.0` equals `1`.
fn equal(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        _ if !spend(1) => false,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| spend(steps_of(key)) && b.get(key).is_some_and(|b| equal(a, b)))
        }
        (Value::String(a), Value::String(b)) => a.len() == b.len() && spend(steps_of(a)) && a == b,
        _ => cmp::equal(value, expected),
    }
}

/// The members of an object.
pub(super) struct Members<'a>(&'a Map<String, Value>);

impl<'a> Object<'a, MeteredJson> for Members<'a> {
    type Node = MeteredValue<'a>;
    type MemberName = &'a str;
    type MembersIter = MemberSteps<'a>;

    fn len(&self) -> usize {
        if is_stopped() { 0 } else { self.0.len() }
    }

    fn get(&self, key: &String) -> Option<MeteredValue<'a>> {
        if !spend(steps_of(key)) {
            return None;
        }
        self.0.get(key).map(MeteredValue::new)
    }

    fn members(&self) -> MemberSteps<'a> {
        MemberSteps(self.0.iter())
    }
}

pub(super) struct MemberSteps<'a>(map::Iter<'a>);

impl<'a> Iterator for MemberSteps<'a> {
    type Item = (&'a str, MeteredValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.0.next()?;
        // Errors contain copies of the property names.
        let kept = |meter: &Meter| !meter.makes_errors.get() || meter.take(length(key) + 48);
        (spend_on_match(key) && METER.with(kept))
            .then_some((key.as_str(), MeteredValue::new(value)))
    }
}

/// The items of an array.
pub(super) struct Items<'a>(&'a [Value]);

impl<'a> Array<'a, MeteredJson> for Items<'a> {
    type Node = MeteredValue<'a>;
    type ElementsIter = ItemSteps<'a>;

    fn len(&self) -> usize {
        if is_stopped() { 0 } else { self.0.len() }
    }

    fn elements(&self) -> ItemSteps<'a> {
        ItemSteps(self.0.iter())
    }

    // Compares whole texts. The validator's own hash covers only the leaves, so many different
    // values can share it, and comparing all values with the same hash is quadratic.
    fn is_unique(&self) -> bool {
        let mut seen = HashSet::with_capacity(self.0.len());
        self.0
            .iter()
            .all(|item| spend(weight(item) / 8) && seen.insert(crate::derive::unique(item)))
    }
}

pub(super) struct ItemSteps<'a>(slice::Iter<'a, Value>);

impl<'a> Iterator for ItemSteps<'a> {
    type Item = MeteredValue<'a>;

    fn next(&mut self) -> Option<MeteredValue<'a>> {
        let item = self.0.next()?;
        spend(1).then(|| MeteredValue::new(item))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The steps that a check takes.
    fn steps(schema: &Value, value: &Value) -> u64 {
        let validator = jsonschema::options_for::<MeteredJson>().build(schema).unwrap();
        let allowance =
            Allowance { steps: u64::MAX, time: Duration::MAX, pattern_states: 8, errors: None };
        let checked = metered(allowance, || validator.is_valid(MeteredValue::new(value)));
        assert!(checked.result == Some(true) && checked.stop.is_none());
        checked.steps
    }

    #[test]
    fn steps_grow_with_schema_times_arguments() {
        let schema = |n: u64| json!({"items": {"anyOf": (0..n).map(|k| json!({"const": k})).collect::<Vec<_>>()}});
        let value =
            |n: u64, last: u64| Value::Array(vec![json!(last); usize::try_from(n).unwrap()]);
        let small = steps(&schema(10), &value(10, 9));
        assert!(small >= 100, "{small}");
        let large = steps(&schema(100), &value(100, 99));
        assert!((90..=110).contains(&(large / small)), "{small} {large}");
    }

    #[test]
    fn a_text_costs_its_length_times_the_pattern() {
        let schema = json!({"pattern": "^[ab]*$"});
        let cost = |length: usize| steps(&schema, &json!("a".repeat(length)));
        assert!(cost(10_000) >= 10_000);
        assert!(cost(20_000) <= 2 * cost(10_000) + 10);
    }

    #[test]
    fn a_stopped_check_ends_with_an_error() {
        let schema = json!({"items": {"anyOf": [{"const": 1}, {"items": {"type": "string"}}]}});
        let validator = jsonschema::options_for::<MeteredJson>().build(&schema).unwrap();
        let value = Value::Array(vec![json!(["a"]); 1_000]);
        let allowance = |steps, errors| Allowance {
            steps,
            time: Duration::from_secs(60),
            pattern_states: 0,
            errors,
        };
        let check = || validator.is_valid(MeteredValue::new(&value));
        assert_eq!(metered(allowance(100, None), check).stop, Some(Stop::Steps));
        let past = Allowance { time: Duration::ZERO, ..allowance(u64::MAX, None) };
        let many = Value::Array(vec![json!(["a"]); 10_000]);
        let check = || validator.is_valid(MeteredValue::new(&many));
        assert_eq!(metered(past, check).stop, Some(Stop::Time));
        let value = Value::Array(vec![json!([1]); 1_000]);
        let collected = metered(allowance(u64::MAX, Some((10_000, 0))), || {
            validator.iter_errors(MeteredValue::new(&value)).collect::<Vec<_>>()
        });
        assert_eq!(collected.stop, Some(Stop::Bytes));
        let errors = collected.result.unwrap();
        let true_ones = errors.iter().filter(|error| is_true(error)).count();
        assert!((1..20).contains(&true_ones), "{true_ones} of {}", errors.len());
    }
}
