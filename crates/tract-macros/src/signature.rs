//! Parses the signature of a tool's function: which parameters are arguments.

use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Generics, Ident, Pat, PatType, PathSegment, Result, Signature, Type,
};

use crate::attributes::{self, ParameterDefault};

/// A parameter that is an argument of the tool.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) docs: Vec<Attribute>,
    pub(crate) others: Vec<Attribute>,
    pub(crate) default: Option<ParameterDefault>,
}

/// The source of the value that is passed for a parameter.
pub(crate) enum ParameterSource {
    Argument(Ident),
    Context { by_value: bool },
}

pub(crate) fn check_generics(generics: &Generics) -> Result<()> {
    match generics.params.first() {
        Some(parameter) => Err(Error::new_spanned(
            parameter,
            "a tool has no generic parameters, its schema is one: write the types themselves",
        )),
        None => Ok(()),
    }
}

pub(crate) fn check_signature(sig: &Signature) -> Result<()> {
    check_generics(&sig.generics)?;
    if !sig.safety.to_token_stream().is_empty() {
        return Err(Error::new_spanned(&sig.safety, "a model calls a tool: it cannot be `unsafe`"));
    }
    if let Some(abi) = &sig.abi {
        return Err(Error::new_spanned(abi, "a tool is a plain function: drop the ABI"));
    }
    if let Some(variadic) = &sig.variadic {
        return Err(Error::new_spanned(
            variadic,
            "arguments have names: write a `Vec<T>` parameter",
        ));
    }
    Ok(())
}

/// Returns the arguments and the source of each parameter. Moves our attributes, and those of the
/// fields, out of the signature.
pub(crate) fn parameters(sig: &mut Signature) -> Result<(Vec<Argument>, Vec<ParameterSource>)> {
    let mut arguments = Vec::new();
    let mut places = Vec::new();
    let mut context: Option<Span> = None;
    let mut errors: Vec<Error> = Vec::new();
    for input in &mut sig.inputs {
        let input = match input {
            FnArg::Typed(input) => input,
            FnArg::Receiver(receiver) => {
                errors.push(Error::new_spanned(
                    receiver,
                    "a tool has no `self` here: write a free function, or `#[tool]` on the struct, \
                     whose fields are then the arguments",
                ));
                continue;
            }
        };
        if let Some(by_value) = is_context(&input.ty) {
            match (by_value, context.replace(input.ty.span())) {
                (Err(error), _) => errors.push(error),
                (Ok(_), Some(_)) => errors.push(Error::new_spanned(
                    &input.ty,
                    "a tool has one context: drop this parameter",
                )),
                (Ok(by_value), None) => {
                    places.push(ParameterSource::Context { by_value });
                    input.attrs.retain(|attribute| !attributes::is_for_field(attribute));
                }
            }
            continue;
        }
        match argument(input) {
            Ok(argument) => {
                places.push(ParameterSource::Argument(argument.ident.clone()));
                arguments.push(argument);
            }
            Err(error) => errors.push(error),
        }
    }
    all_of(errors).map(|()| (arguments, places))
}

/// Combines errors into one; `Ok` if there are none.
pub(crate) fn all_of(errors: impl IntoIterator<Item = Error>) -> Result<()> {
    let all = errors.into_iter().reduce(|mut all, error| {
        all.combine(error);
        all
    });
    all.map_or(Ok(()), Err)
}

/// Returns `Some` if a type is the context, and whether it is passed by value.
fn is_context(ty: &Type) -> Option<Result<bool>> {
    let named = |ty: &Type| last_segment(ty).is_some_and(|segment| segment.ident == "ToolContext");
    match ty {
        Type::Reference(reference) if named(&reference.elem) => Some(match &reference.mutability {
            None => Ok(false),
            Some(token) => Err(Error::new_spanned(
                token,
                "a tool changes nothing in its context: write `&ToolContext`",
            )),
        }),
        ty if named(ty) => Some(Ok(true)),
        _ => None,
    }
}

fn argument(input: &mut PatType) -> Result<Argument> {
    let ident = match &*input.pat {
        Pat::Ident(pattern) if pattern.subpat.is_none() && pattern.by_ref.is_none() => {
            pattern.ident.clone()
        }
        pattern => {
            let message = match pattern {
                Pat::Wild(_) => "an argument has a name, which the model reads: write `name: Type`",
                _ => "an argument has one name: write `name: Type`, and take it apart in the body",
            };
            return Err(Error::new_spanned(pattern, message));
        }
    };
    check_type(&input.ty)?;
    let mut argument = Argument {
        ident,
        ty: (*input.ty).clone(),
        docs: Vec::new(),
        others: Vec::new(),
        default: None,
    };
    for attribute in std::mem::take(&mut input.attrs) {
        if attribute.path().is_ident("tool") {
            argument.default = Some(attributes::of_parameter(&attribute)?);
        } else if attribute.path().is_ident("doc") {
            argument.docs.push(attribute);
        } else if attributes::is_for_field(&attribute) {
            argument.others.push(attribute);
        } else {
            input.attrs.push(attribute);
        }
    }
    Ok(argument)
}

fn check_type(ty: &Type) -> Result<()> {
    match ty {
        Type::Reference(reference) => {
            let elem = &reference.elem;
            let owned = match &**elem {
                Type::Slice(slice) => format!("Vec<{}>", readable(&slice.elem)),
                elem => match readable(elem).as_str() {
                    "str" => "String".to_owned(),
                    path if path == "Path" || path.ends_with("::Path") => format!("{path}Buf"),
                    other => other.to_owned(),
                },
            };
            Err(Error::new_spanned(
                reference,
                format!("arguments are parsed, so they are owned: write `{owned}`"),
            ))
        }
        Type::ImplTrait(ty) => Err(Error::new_spanned(
            ty,
            "an argument's schema is derived from its type: write the type itself, such as `String`",
        )),
        Type::Slice(slice) => Err(Error::new_spanned(
            slice,
            format!("arguments are owned: write `Vec<{}>`", readable(&slice.elem)),
        )),
        _ => Ok(()),
    }
}

fn readable(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}
