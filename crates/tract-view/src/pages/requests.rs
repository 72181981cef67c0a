//! The request that each provider would get.

use maud::{Markup, html};
use tract_core::text::number;
use tract_providers::{Form, FormOptions, Params, compile_form};

use super::{Tab, session_header};
use crate::load::LoadedContext;
use crate::text::{query, visible};

/// Maximum number of listed repairs of a request.
const REPAIRS: usize = 20;

/// The request of a context in the form of one provider.
pub(crate) struct RequestForm {
    form: Form,
    /// The request, or the reason why there is none.
    request: Result<Params, String>,
}

impl RequestForm {
    /// Compiles a context for every provider. A context with damage has no requests.
    pub(crate) fn all(context: &LoadedContext) -> Vec<Self> {
        let forms = Form::all().filter(|form| form.as_str().ends_with("-params"));
        let compile = |form| {
            if !context.unreadable.is_empty() {
                return Err("a part of the context cannot be read".to_owned());
            }
            let options = FormOptions::default();
            compile_form(&context.compiled, form, &options).map_err(|error| error.to_string())
        };
        forms.map(|form| Self { form, request: compile(form) }).collect()
    }
}

/// Lists the requests, each with its size, what was repaired, and links to read and copy it.
pub(crate) fn requests(context: &LoadedContext, forms: &[RequestForm]) -> Markup {
    let revision = query(&context.revision);
    html! {
        (session_header(context, Tab::Requests, true))
        p .soft { "The next request of this conversation, as each provider would get it." }
        div .scroll tabindex="0" {
            table {
                thead { tr { th { "provider" } th .number { "bytes" } th .number { "cacheable blocks" } th { "repairs" } th { "request" } } }
                tbody {
                    @for one in forms {
                        @let link = format!("/request?rev={revision}&to={}", one.form);
                        tr {
                            td { b { (one.form.as_str().trim_end_matches("-params")) } }
                            @match &one.request {
                                Ok(request) => {
                                    td .number { (number(request.to_json().to_string().len() as u64)) }
                                    td .number { (request.prefix.len()) }
                                    td {
                                        @if request.repairs.is_empty() { span .soft { "none" } } @else {
                                            details {
                                                summary { (request.repairs.len()) }
                                                ul { @for repair in request.repairs.iter().take(REPAIRS) { li { (visible(&repair.to_string())) } } }
                                                @if request.repairs.len() > REPAIRS { p .soft { (request.repairs.len() - REPAIRS) " more" } }
                                            }
                                        }
                                    }
                                    td .id { a href=(link) { "open" } " " a .copy href=(link) { "copy" } }
                                }
                                Err(reason) => td .failed colspan="4" { (visible(reason)) },
                            }
                        }
                    }
                }
            }
        }
    }
}
