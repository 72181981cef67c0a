//! `#[tool_type]`: the derives of a type inside of a tool's arguments.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Fields, Item, LitStr, Path, Result, Token};

use crate::attributes::Options;
use crate::paths;

pub(crate) fn expand(options: &Options, item: Item) -> Result<TokenStream> {
    let (attributes, flattens, closable) = match &item {
        Item::Struct(item) => {
            (&item.attrs, flattens(&item.fields), matches!(item.fields, Fields::Named(_)))
        }
        Item::Enum(item) => {
            let flattens = item.variants.iter().any(|variant| flattens(&variant.fields));
            (&item.attrs, flattens, true)
        }
        other => {
            return Err(Error::new_spanned(
                other,
                "expected a `struct` or an `enum`: write `#[tool_type]` on one of these",
            ));
        }
    };
    let derives = derives(options, attributes, !flattens && closable)?;
    Ok(quote!(#derives #item))
}

/// Returns whether a field flattens another type.
pub(crate) fn flattens(fields: &Fields) -> bool {
    fields.iter().any(|field| has_serde_word(&field.attrs, "flatten"))
}

pub(crate) fn has_serde_word(attributes: &[Attribute], word: &str) -> bool {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let mut found = false;
    for attribute in ours {
        // serde reports the attributes that it does not know.
        let _ = attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident(word);
            if meta.input.peek(Token![=]) {
                meta.value()?.parse::<syn::Expr>()?;
            } else if meta.input.peek(syn::token::Paren) {
                let inner;
                syn::parenthesized!(inner in meta.input);
                inner.parse::<TokenStream>()?;
            }
            Ok(())
        });
    }
    found
}

/// Returns the attributes that derive `Deserialize` and `JsonSchema`.
pub(crate) fn derives(
    options: &Options,
    attributes: &[Attribute],
    closed: bool,
) -> Result<TokenStream> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let paths = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
        for path in paths {
            let Some(last) = path.segments.last() else { continue };
            if last.ident == "Deserialize" || last.ident == "JsonSchema" {
                return Err(Error::new_spanned(
                    &path,
                    format!("`{}` is derived already: drop it here", last.ident),
                ));
            }
        }
    }
    let private = paths::private(options.krate.as_ref());
    let path = private.to_string().replace(' ', "");
    let serde = LitStr::new(&format!("{path}::serde"), Span::call_site());
    let schemars = LitStr::new(&format!("{path}::schemars"), Span::call_site());
    let closed = closed
        && !has_serde_word(attributes, "deny_unknown_fields")
        && !has_serde_word(attributes, "transparent");
    let deny = closed.then(|| quote!(, deny_unknown_fields));
    Ok(quote! {
        #[derive(#private::serde::Deserialize, #private::schemars::JsonSchema)]
        #[serde(crate = #serde #deny)]
        #[schemars(crate = #schemars)]
    })
}
