//! Attributes that turn a function or a struct into a tool.
//!
//! Use them through `tract` (feature `tools`) or `tract-tools`, under the name in your
//! `Cargo.toml`. The generated code refers to no other crate.
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

/// Turns a function or a struct into a tool.
///
/// # On a function, async or not
/// The function is unchanged. For `async fn get_weather(..)` the macro adds `GetWeather`, which
/// implements `Tool`, and `GetWeatherParams`, its arguments.
/// - Every parameter is an argument: any type that derives `Deserialize` and `JsonSchema` (see
///   [`macro@tool_type`]). A parameter of type `&ToolContext` (or `ToolContext`) is the context.
/// - The description is the first paragraph of the doc comment. An argument is described by the doc
///   comment on the parameter, or else by the section `# Arguments` (`- name: text`).
/// - `Option<T>` may be absent or null. `#[tool(default)]` and `#[tool(default = expr)]` make a
///   parameter optional; `#[serde(..)]` and `#[schemars(..)]` are allowed there too.
/// - It returns a value that serializes, `ToolResult<T>`, or a `Result` of either. The error is a
///   `ToolError`, any error that can be sent between threads, or a text.
///
/// # On a struct
/// The fields are the arguments: validated arguments become an instance, on which `async fn
/// run(self)` or `async fn run(self, context: &ToolContext)` is called. `Search::tool()` returns
/// the tool. `Deserialize` and `JsonSchema` are derived.
///
/// # Options
/// `#[tool(name = "..", description = "..", read_only, idempotent, destructive,
/// timeout_ms = 5000, type = Name, crate = path)]`: `name` defaults to the name of the function, or
/// that of the struct in snake case; `type` names the type that is generated for a function;
/// `crate` is the path of `tract`, if it is not found in `Cargo.toml`.
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

/// Derives `Deserialize` and `JsonSchema` for a type inside of a tool's arguments.
///
/// It makes direct dependencies on `serde` and `schemars` unnecessary. Attributes of both are
/// allowed on the type. Structs and enums reject unknown fields. Derive by hand for a type that
/// another one flattens, since it must let the other fields pass.
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

/// Derives the JSON schema of a type, without a dependency on `schemars`.
///
/// It is the derive of `schemars`, with the same attributes. A type inside of a tool's arguments
/// also needs `Deserialize`; `#[tool_type]` derives both.
#[proc_macro_derive(JsonSchema, attributes(schemars, serde, validate, garde))]
pub fn json_schema(item: TokenStream) -> TokenStream {
    let expanded = syn::parse::<syn::DeriveInput>(item).and_then(json_schema::expand);
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}

/// Returns the expansion, or its errors followed by the original item. Without the item, every use
/// of it would be another error.
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
