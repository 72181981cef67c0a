//! `#[tool]` on a function, async or not.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{
    Error, Expr, FnArg, GenericArgument, Ident, ItemFn, LitStr, PathArguments, PathSegment, Result,
    ReturnType, Signature, Type,
};

use crate::attributes::{Options, ParameterDefault};
use crate::signature::{
    Argument, ParameterSource, all_of, check_signature, last_segment, parameters,
};
use crate::{docs, names, paths, types};

pub(crate) fn expand(options: &Options, mut function: ItemFn) -> Result<TokenStream> {
    check_signature(&function.sig)?;
    let (arguments, places) = parameters(&mut function.sig)?;
    let private = paths::private(options.krate.as_ref());
    let ident = function.sig.ident.clone();
    let plain = ident.unraw().to_string();
    let name = options.name_or(plain.clone(), ident.span())?;
    let tool = match &options.type_name {
        Some(name) => name.clone(),
        None => Ident::new(&names::pascal(&plain), ident.span()),
    };
    let params = format_ident!("{tool}Params", span = ident.span());
    if options.type_name.is_none() {
        check_type_names(&function.sig, [&tool, &params])?;
    }
    let lines = docs::lines(&function.attrs);
    let description = description(options, &lines, ident.span(), "fn")?;
    let fields = fields(&arguments, &lines, &params, &function.vis)?;
    let defaults = arguments.iter().filter_map(default_function);
    let vis = &function.vis;
    let derives = types::derives(options, &[], true)?;
    let tool_doc = format!("The tool [`{plain}`].");
    let params_doc = format!("The arguments of the tool [`{tool}`].");
    // Hygienic names, which cannot collide with those of parameters.
    let (given, context) =
        (Ident::new("given", Span::mixed_site()), Ident::new("context", Span::mixed_site()));
    let handed = places.iter().map(|place| match place {
        ParameterSource::Argument(name) => quote!(#given.0.#name),
        ParameterSource::Context { by_value: false } => quote!(#context),
        ParameterSource::Context { by_value: true } => {
            quote!(::core::clone::Clone::clone(#context))
        }
    });
    // A synchronous function runs on the thread that polls the call. If it blocks for long, it has
    // to use `blocking`, as an async function does.
    let wait = function.sig.asyncness.map(|_| quote!(.await));
    let (output, answer) =
        answer(&private, &function.sig.output, quote!(#ident(#(#handed),*)#wait));
    let traits = options.traits(&private);
    let timeout = options.timeout().map(|timeout| {
        quote! {
            fn timeout(&self) -> ::core::option::Option<::core::time::Duration> {
                ::core::option::Option::Some(#timeout)
            }
        }
    });
    Ok(quote! {
        #function

        #[doc = #tool_doc]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug, ::core::default::Default)]
        #vis struct #tool;

        #[doc = #params_doc]
        #[allow(missing_docs)]
        #derives
        #vis struct #params {
            #(#fields,)*
        }

        #[automatically_derived]
        impl #params {
            #(#defaults)*
        }

        #[automatically_derived]
        #[#private::async_trait]
        impl #private::Tool for #tool {
            type Params = #private::Args<#params>;
            type Output = #output;

            fn name(&self) -> ::std::borrow::Cow<'_, str> {
                ::std::borrow::Cow::Borrowed(#name)
            }

            fn description(&self) -> ::std::borrow::Cow<'_, str> {
                ::std::borrow::Cow::Borrowed(#description)
            }

            fn traits(&self) -> #private::ToolTraits {
                #traits
            }

            #timeout

            fn render(&self, value: &Self::Output) -> ::core::option::Option<::std::string::String> {
                use #private::FindRendering as _;
                (&&#private::ShownValue(value)).rendered()
            }

            fn output_schema(&self) -> ::core::option::Option<::std::string::String> {
                use #private::FindSchema as _;
                (&&#private::RunReturn::<Self::Output>::without_value()).schema()
            }

            #[allow(unused_variables)]
            async fn call(
                &self,
                #given: #private::Args<#params>,
                #context: &#private::ToolContext,
            ) -> ::core::result::Result<#private::ToolResult<Self::Output>, #private::ToolError> {
                #answer
            }
        }
    })
}

/// Returns the description of a tool for the model.
pub(crate) fn description(
    options: &Options,
    lines: &[docs::Line],
    span: Span,
    kind: &str,
) -> Result<String> {
    let (text, span) = match &options.description {
        Some(text) => (text.value(), text.span()),
        None => (docs::first_paragraph(lines), span),
    };
    let message = match text.chars().count() {
        _ if text.trim().is_empty() => format!(
            "a model reads what a tool does: write a doc comment (`/// What it does.`) above the \
             `{kind}`, or `#[tool(description = \"..\")]`"
        ),
        ..=docs::MOST => return Ok(text),
        length => format!(
            "a description has 1 to {} characters, found {length}: shorten the first \
             paragraph, or write `#[tool(description = \"..\")]`",
            docs::MOST
        ),
    };
    Err(Error::new(span, message))
}

fn fields(
    arguments: &[Argument],
    lines: &[docs::Line],
    params: &Ident,
    vis: &syn::Visibility,
) -> Result<Vec<TokenStream>> {
    let entries = docs::arguments(lines);
    let plain = |argument: &Argument| argument.ident.unraw().to_string();
    let is_argument = |name: &str| arguments.iter().any(|argument| plain(argument) == name);
    let stray = entries.iter().filter(|entry| !is_argument(&entry.name)).map(|entry| {
        let names: Vec<String> =
            arguments.iter().map(|argument| format!("`{}`", plain(argument))).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let name = &entry.name;
        let message = format!(
            "`# Arguments` describes `{name}`, which is no argument: the function has {has}"
        );
        Error::new(entry.span, message)
    });
    all_of(stray)?;
    let fields = arguments.iter().map(|argument| {
        let Argument { ident, ty, docs, others, default } = argument;
        let own = docs::full_text(&docs::lines(docs));
        let listed = entries.iter().find(|entry| entry.name == plain(argument));
        let text = match listed {
            Some(entry) if own.is_empty() => entry.text.clone(),
            _ => own,
        };
        let doc = (!text.is_empty()).then(|| quote!(#[doc = #text]));
        let default = default.as_ref().map(|default| match default {
            ParameterDefault::Plain => quote!(#[serde(default)]),
            ParameterDefault::As(_) => {
                let path = LitStr::new(&format!("{params}::{}", default_name(ident)), ident.span());
                quote!(#[serde(default = #path)])
            }
        });
        quote!(#doc #(#others)* #default #vis #ident: #ty)
    });
    Ok(fields.collect())
}

fn default_name(ident: &Ident) -> Ident {
    format_ident!("__default_{}", ident.unraw())
}

fn default_function(argument: &Argument) -> Option<TokenStream> {
    let Some(ParameterDefault::As(value)) = &argument.default else { return None };
    let (name, ty): (Ident, &Type) = (default_name(&argument.ident), &argument.ty);
    let value: &Expr = value;
    let body = quote_spanned!(value.span()=> #value);
    Some(quote! {
        #[doc(hidden)]
        fn #name() -> #ty {
            #body
        }
    })
}

/// Returns the type of the value, and the expression of the result. Types are recognized by the
/// last segment of their path, since a macro does not know more about them.
fn answer(
    private: &TokenStream,
    output: &ReturnType,
    call: TokenStream,
) -> (TokenStream, TokenStream) {
    let ty = match output {
        ReturnType::Default => {
            return (
                quote!(()),
                quote!({ #call; ::core::result::Result::Ok(#private::ToolResult::ok(())) }),
            );
        }
        ReturnType::Type(_, ty) => ty,
    };
    let span = ty.span();
    let last = last_segment(ty);
    let is = |segment: Option<&PathSegment>, name: &str| {
        segment.is_some_and(|segment| segment.ident == name)
    };
    let call = quote_spanned!(span=> #call);
    let private = &paths::respanned(private, span);
    if is(last, "Result") {
        let value = quote_spanned!(span=> <#ty as #private::Fallible>::Value);
        let result = quote_spanned! {span=>
            #private::Fallible::into_result(#call).map_err(#private::failed)
        };
        return if is(last.and_then(first_argument).and_then(last_segment), "ToolResult") {
            (quote_spanned!(span=> <#value as #private::ToolResultParts>::Value), result)
        } else {
            (value, quote!(#result.map(#private::ToolResult::ok)))
        };
    }
    if is(last, "ToolResult") {
        (
            quote_spanned!(span=> <#ty as #private::ToolResultParts>::Value),
            quote!(::core::result::Result::Ok(#call)),
        )
    } else {
        (quote!(#ty), quote!(::core::result::Result::Ok(#private::ToolResult::ok(#call))))
    }
}

fn first_argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Rejects a function whose signature uses a type with the name of a generated one. The compiler
/// would only report a duplicate definition, and not how to fix it.
fn check_type_names(signature: &Signature, added: [&Ident; 2]) -> Result<()> {
    fn find(tokens: TokenStream, added: [&Ident; 2]) -> Option<Ident> {
        tokens.into_iter().find_map(|token| match token {
            TokenTree::Ident(used) => added.into_iter().any(|name| used == *name).then_some(used),
            TokenTree::Group(group) => find(group.stream(), added),
            TokenTree::Punct(_) | TokenTree::Literal(_) => None,
        })
    }
    let inputs = signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(input) => Some(input.ty.to_token_stream()),
        FnArg::Receiver(_) => None,
    });
    let types = inputs.chain([signature.output.to_token_stream()]);
    match types.into_iter().find_map(|tokens| find(tokens, added)) {
        Some(used) => {
            let [tool, _] = added;
            Err(Error::new(
                used.span(),
                format!(
                    "`#[tool]` adds the types `{tool}` and `{tool}Params`, and the function uses \
                     `{used}`: name the tool's type, as in `#[tool(type = {tool}Tool)]`"
                ),
            ))
        }
        None => Ok(()),
    }
}
