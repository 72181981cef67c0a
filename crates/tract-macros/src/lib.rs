//! The attributes that make a function or a struct a tool.
//!
//! They are reached through `tract` (feature `tools`) or `tract-tools`, under the name that a
//! `Cargo.toml` gives those; what they write refers to nothing else.
#![forbid(unsafe_code)]

mod attributes;
mod docs;
mod function;
mod json_schema;
mod names;
mod paths;
mod signature;
mod structure;
mod types;

use proc_macro::TokenStream;
use quote::ToTokens;
use syn::Item;

/// Makes a tool of a function or of a struct.
///
/// # On a function, async or not
/// `async fn get_weather(..)` stays as it is; `GetWeather`, which implements `Tool`, and
/// `GetWeatherParams`, its arguments, are added.
/// - Every parameter is an argument: any type that derives `Deserialize` and `JsonSchema` (see
///   [`macro@tool_type`]). A parameter of type `&ToolContext` (or `ToolContext`) is the context.
/// - The description is the first paragraph of the doc comment. An argument is described by the
///   doc comment on the parameter, else by the section `# Arguments` (`- name: text`).
/// - `Option<T>` may be absent or null. `#[tool(default)]` and `#[tool(default = expr)]` on a
///   parameter make it optional; `#[serde(..)]` and `#[schemars(..)]` are allowed there too.
/// - It returns a value that serializes, `ToolResult<T>`, or a `Result` of either; the error is a
///   `ToolError`, any error that can be sent between threads, or a text.
///
/// # On a struct
/// Its fields are the arguments: once validated they are the instance, whose
/// `async fn run(self)` or `async fn run(self, context: &ToolContext)` is the call.
/// `Search::tool()` is the tool. `Deserialize` and `JsonSchema` are derived.
///
/// # Options
/// `#[tool(name = "..", description = "..", read_only, idempotent, destructive,
/// timeout_ms = 5000, type = Name, crate = path)]`: the name is the function's, or the struct's in
/// snake case; `type` names the type that a function's tool becomes; `crate` is the path of
/// `tract`, where it is not found in `Cargo.toml`.
///
/// ```text
/// /// Translates a text.
/// ///
/// /// # Arguments
/// /// - text: the text to translate
/// /// - to: the language, as ISO 639-1
/// #[tract::tool(read_only)]
/// async fn translate(text: String, #[tool(default = "fr".into())] to: String) -> String {
///     format!("{text} in {to}")
/// }
/// registry.add(Translate);
/// ```
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    let original = item.clone();
    let expanded = syn::parse::<Item>(item).and_then(|item| {
        let options = attributes::Options::parse(options.into())?;
        match item {
            Item::Fn(function) => function::expand(&options, function),
            Item::Struct(structure) => structure::expand(&options, structure),
            Item::Enum(item) => Err(syn::Error::new_spanned(
                item.enum_token,
                "a tool's arguments are an object: write a struct with a field of this enum, and \
                 `#[tool_type]` on the enum",
            )),
            Item::Impl(item) => Err(syn::Error::new_spanned(
                item.impl_token,
                "write `#[tool]` on the struct; its `async fn run(self, ..)` stays in a plain `impl`",
            )),
            other => Err(syn::Error::new_spanned(
                other,
                "expected a `fn` or a `struct`: write `#[tool]` on one of these",
            )),
        }
    });
    or_errors(expanded, original)
}

/// Derives what a type inside of a tool's arguments needs: `Deserialize` and `JsonSchema`, closed.
///
/// It saves the dependencies on `serde` and `schemars`. Attributes of both are allowed on the type.
/// Struct and enum alike refuse names that no field has; a type that another one flattens must let
/// them pass, so derive it by hand.
///
/// ```text
/// #[tract::tool_type]
/// enum Sort {
///     /// Oldest first.
///     Oldest,
///     /// Newest first.
///     Newest,
/// }
/// ```
#[proc_macro_attribute]
pub fn tool_type(options: TokenStream, item: TokenStream) -> TokenStream {
    let original = item.clone();
    let expanded = syn::parse::<Item>(item).and_then(|item| {
        let options = attributes::Options::parse_for_type(options.into())?;
        types::expand(&options, item)
    });
    or_errors(expanded, original)
}

/// Derives the schema of a type, without a dependency on `schemars`.
///
/// It is the derive of `schemars`, with the same attributes. A type inside of a tool's arguments also
/// needs `Deserialize`; `#[tool_type]` derives both.
#[proc_macro_derive(JsonSchema, attributes(schemars, serde, validate, garde))]
pub fn json_schema(item: TokenStream) -> TokenStream {
    let expanded = syn::parse::<syn::DeriveInput>(item).and_then(json_schema::expand);
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The item stays as it was written, so that one mistake is one error.
fn or_errors(
    expanded: syn::Result<proc_macro2::TokenStream>,
    original: TokenStream,
) -> TokenStream {
    match expanded {
        Ok(tokens) => tokens.into(),
        Err(error) => {
            let mut tokens = error.to_compile_error();
            if let Ok(item) = syn::parse::<Item>(original) {
                attributes::without_ours(item).to_tokens(&mut tokens);
            }
            tokens.into()
        }
    }
}
