use tract::schema::{Dialect, raise, translate_as};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parameters = r#"{"type":"object","properties":{"limit":{"type":"integer"}}}"#;
    let given = format!(r#"{{"name":"list","parameters":{parameters}}}"#);
    let sent = translate_as(&given, Dialect::OpenAi, true, "list")?;
    assert!(sent.strict && sent.null_for_absent);

    // The model had to write null for what it left out; `raise` reads it as absent.
    let raised = raise(parameters, r#"{"limit":null}"#)?;
    assert_eq!(
        (raised.arguments.as_str(), &raised.left_out[..]),
        ("{}", &["/limit".to_owned()][..])
    );
    Ok(())
}
