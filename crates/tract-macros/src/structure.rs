//! `#[tool]` on a struct.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Error, Fields, Ident, ItemStruct, Result};

use crate::attributes::Options;
use crate::signature::check_generics;
use crate::{docs, function, names, paths, types};

pub(crate) fn expand(options: &Options, structure: ItemStruct) -> Result<TokenStream> {
    let ident = &structure.ident;
    check_generics(&structure.generics)?;
    let wrong = match (&structure.fields, &options.type_name) {
        (Fields::Named(_), None) => None,
        (Fields::Unit, _) => {
            let message = format!(
                "arguments are an object: write `struct {ident} {{}}` for a tool without any"
            );
            Some(Error::new_spanned(ident, message))
        }
        (Fields::Unnamed(fields), _) => {
            let message = format!("arguments have names: write `struct {ident} {{ name: Type }}`");
            Some(Error::new_spanned(fields, message))
        }
        (Fields::Named(_), Some(name)) => {
            let message =
                format!("a struct keeps its own name: the tool is `{ident}::tool()`; drop `type`");
            Some(Error::new_spanned(name, message))
        }
    };
    wrong.map_or(Ok(()), Err)?;
    let name = options.name_or(names::snake(&ident.unraw().to_string()), ident.span())?;
    let lines = docs::lines(&structure.attrs);
    let description = function::description(options, &lines, ident.span(), "struct")?;
    let closed = !types::flattens(&structure.fields);
    let derives = types::derives(options, &structure.attrs, closed)?;
    let private = paths::private(options.krate.as_ref());
    let traits = options.traits(&private);
    let timeout =
        options.timeout().map(|timeout| quote!(timeout: ::core::option::Option::Some(#timeout),));
    let vis = &structure.vis;
    let context = Ident::new("context", Span::mixed_site());
    // If `run` is missing or has another signature, the error points at the name of the struct.
    let run = quote_spanned!(ident.span()=> #ident::run);
    let marked = paths::respanned(&private, ident.span());
    let entered = quote_spanned!(ident.span()=> #marked::enter(#run, self, #context).await);
    let instance = Ident::new("instance", Span::mixed_site());
    // Also expand through `enter`, so that a mistake in `run` is reported once.
    let returned = quote_spanned! {ident.span()=>
        #marked::returned::<Self, _, _>(|#instance, #context| #marked::enter(#run, #instance, #context))
    };
    Ok(quote! {
        #derives
        #structure

        #[automatically_derived]
        impl #ident {
            /// Returns the tool whose calls are values of this type.
            #[allow(dead_code)]
            #vis fn tool() -> #private::Instance<Self> {
                <Self as #private::ToolInstance>::tool()
            }
        }

        #[automatically_derived]
        impl #private::ToolInstance for #ident {
            fn describe() -> #private::ToolSpec {
                #private::ToolSpec {
                    traits: #traits,
                    #timeout
                    ..#private::ToolSpec::new(#name, #description, "")
                }
            }

            fn output_schema() -> ::core::option::Option<::std::string::String> {
                #[allow(unused_imports)]
                use #private::{FindSchema as _, IntoResult as _, Run as _};
                (&&(&&&&#returned).value_type()).schema()
            }

            fn enter<'a>(self, #context: &'a #private::ToolContext) -> #private::Entry<'a> {
                #[allow(unused_imports)]
                use #private::{FindRendering as _, IntoResult as _, Run as _};
                ::std::boxed::Box::pin(async move {
                    (&&&&#private::RunReturn::new(#entered)).result()?.try_map(|value| {
                        #private::rendered(&value, (&&#private::ShownValue(&value)).rendered())
                    })
                })
            }
        }
    })
}
