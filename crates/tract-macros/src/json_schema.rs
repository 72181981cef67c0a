//! `#[derive(JsonSchema)]`: the derive of `schemars`, reached through the path of `tract`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Attribute, Data, DeriveInput, Error, Fields, LitStr, Result};

use crate::{paths, types};

/// A derive cannot add `#[schemars(crate = ..)]` to its own type. It therefore derives on a copy
/// with the same name, and the impl of the original calls that of the copy.
pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let private = paths::private(None);
    let path = private.to_string().replace(' ', "");
    let schemars = LitStr::new(&format!("{path}::schemars"), Span::call_site());
    let ident = &input.ident;
    let generics = &input.generics;
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let predicates = where_clause.map(|clause| &clause.predicates);
    let default = default(&input)?;
    let mut copy = input.clone();
    copy.vis = syn::Visibility::Inherited;
    strip(&mut copy);
    Ok(quote! {
        const _: () = {
            #[allow(type_alias_bounds)]
            type __Original #impl_generics = #ident #type_generics;
            const _: () = {
                #[derive(#private::schemars::JsonSchema)]
                #[schemars(crate = #schemars)]
                #[allow(dead_code)]
                #copy

                #default

                #[automatically_derived]
                impl #impl_generics #private::schemars::JsonSchema for __Original #type_generics
                where
                    #ident #type_generics: #private::schemars::JsonSchema,
                    #predicates
                {
                    fn inline_schema() -> bool {
                        <#ident #type_generics as #private::schemars::JsonSchema>::inline_schema()
                    }

                    fn schema_name() -> ::std::borrow::Cow<'static, str> {
                        <#ident #type_generics as #private::schemars::JsonSchema>::schema_name()
                    }

                    fn schema_id() -> ::std::borrow::Cow<'static, str> {
                        <#ident #type_generics as #private::schemars::JsonSchema>::schema_id()
                    }

                    fn json_schema(
                        generator: &mut #private::schemars::SchemaGenerator,
                    ) -> #private::schemars::Schema {
                        <#ident #type_generics as #private::schemars::JsonSchema>::json_schema(
                            generator,
                        )
                    }
                }
            };
        };
    })
}

/// Implements `Default` for the copy if the type has `#[serde(default)]`: the schema contains the
/// default of each field.
fn default(input: &DeriveInput) -> Result<Option<TokenStream>> {
    if !types::has_serde_word(&input.attrs, "default") {
        return Ok(None);
    }
    let Data::Struct(data) = &input.data else { return Ok(None) };
    let has_path = input.attrs.iter().filter(|attribute| attribute.path().is_ident("serde"));
    for attribute in has_path {
        let mut path = None;
        let _ = attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("default") && meta.input.peek(syn::Token![=]) {
                path = Some(meta.value()?.parse::<LitStr>()?);
            }
            Ok(())
        });
        if let Some(path) = path {
            return Err(Error::new(
                path.span(),
                "write `#[serde(default)]` and implement `Default`, or `#[tract::tool_type]`",
            ));
        }
    }
    let ident = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let predicates = where_clause.map(|clause| &clause.predicates);
    let value = match &data.fields {
        Fields::Named(fields) => {
            let names = fields.named.iter().filter_map(|field| field.ident.as_ref());
            let values = names.map(|name| quote!(#name: original.#name));
            quote!(#ident { #(#values),* })
        }
        Fields::Unnamed(fields) => {
            let values = (0..fields.unnamed.len()).map(syn::Index::from);
            quote!(#ident(#(original.#values),*))
        }
        Fields::Unit => quote!(#ident),
    };
    Ok(Some(quote! {
        impl #impl_generics ::core::default::Default for #ident #type_generics
        where
            __Original #type_generics: ::core::default::Default,
            #predicates
        {
            fn default() -> Self {
                #[allow(unused_variables)]
                let original = <__Original #type_generics as ::core::default::Default>::default();
                #value
            }
        }
    }))
}

/// Removes the attributes that belong to other derives of the type.
fn strip(input: &mut DeriveInput) {
    retain(&mut input.attrs);
    let fields: Vec<&mut Fields> = match &mut input.data {
        Data::Struct(data) => vec![&mut data.fields],
        Data::Enum(data) => {
            let variants = data.variants.iter_mut();
            variants
                .map(|variant| {
                    retain(&mut variant.attrs);
                    &mut variant.fields
                })
                .collect()
        }
        Data::Union(_) => Vec::new(),
    };
    for field in fields.into_iter().flat_map(|fields| fields.iter_mut()) {
        retain(&mut field.attrs);
    }
}

fn retain(attributes: &mut Vec<Attribute>) {
    const READ: [&str; 6] = ["doc", "serde", "schemars", "validate", "garde", "deprecated"];
    attributes.retain(|attribute| READ.iter().any(|name| attribute.path().is_ident(name)));
}
