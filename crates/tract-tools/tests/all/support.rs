use serde_json::Value;
use tract_testkit::data;

pub(crate) fn lines(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(data::find(file).0).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
