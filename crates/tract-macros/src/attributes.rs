//! Parses the options of the attributes, and our attributes on parameters and fields.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, FnArg, Ident, Item, LitInt, LitStr, Path, Result, Token};

use crate::names;

const OPTIONS: &str = "`name`, `description`, `read_only`, `idempotent`, `destructive`, \
                       `timeout_ms`, `type`, `crate`";

/// The arguments of `#[tool(..)]` on an item.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) type_name: Option<Ident>,
    pub(crate) krate: Option<Path>,
    read_only: Option<Span>,
    idempotent: Option<Span>,
    destructive: Option<Span>,
    timeout_ms: Option<u64>,
}

impl Options {
    pub(crate) fn parse(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let parser = syn::meta::parser(|meta| options.read(&meta));
        parser.parse2(tokens)?;
        if let Some(name) = &options.name {
            names::check(&name.value(), name.span())?;
        }
        if let (Some(_), Some(span)) = (options.read_only, options.destructive) {
            return Err(Error::new(
                span,
                "a tool that changes nothing destroys nothing: drop `read_only` or `destructive`",
            ));
        }
        Ok(options)
    }

    pub(crate) fn parse_for_type(tokens: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        let parser = syn::meta::parser(|meta| {
            if meta.path.is_ident("crate") {
                options.read(&meta)
            } else {
                Err(meta.error("`#[tool_type]` takes no option but `crate = path`"))
            }
        });
        parser.parse2(tokens)?;
        Ok(options)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(ident) = meta.path.get_ident() else {
            return Err(meta.error(format!("expected one of {OPTIONS}")));
        };
        let span = ident.span();
        match ident.to_string().as_str() {
            "name" => once(&mut self.name, text(meta)?, span),
            "description" => once(&mut self.description, text(meta)?, span),
            "type" => once(&mut self.type_name, value(meta, "type = AddTool")?, span),
            "crate" => {
                let path = meta.value()?.call(Path::parse_mod_style)?;
                once(&mut self.krate, path, span)
            }
            "timeout_ms" => {
                let number: LitInt = value(meta, "timeout_ms = 5000")?;
                match number.base10_parse() {
                    Ok(0) | Err(_) => Err(Error::new(
                        number.span(),
                        "expected a number of milliseconds above 0, such as `timeout_ms = 5000`",
                    )),
                    Ok(number) => once(&mut self.timeout_ms, number, span),
                }
            }
            "read_only" => once(&mut self.read_only, flag(meta, span)?, span),
            "idempotent" => once(&mut self.idempotent, flag(meta, span)?, span),
            "destructive" => once(&mut self.destructive, flag(meta, span)?, span),
            "timeout" => Err(meta.error("write the timeout in milliseconds: `timeout_ms = 5000`")),
            "default" => Err(meta.error(
                "`default` belongs to a parameter: `async fn f(#[tool(default = 10)] limit: u32)`",
            )),
            other => {
                Err(meta.error(format!("unknown option `{other}`: expected one of {OPTIONS}")))
            }
        }
    }

    /// Returns the tool's name: the `name` option, or else `own`, if that is a valid name.
    pub(crate) fn name_or(&self, own: String, span: Span) -> Result<String> {
        match &self.name {
            Some(name) => Ok(name.value()),
            None => names::check(&own, span).map(|()| own),
        }
    }

    /// Returns an expression of the tool's traits.
    pub(crate) fn traits(&self, private: &TokenStream) -> TokenStream {
        let (read_only, destructive) = (self.read_only.is_some(), self.destructive.is_some());
        let idempotent = read_only || self.idempotent.is_some();
        quote!(#private::ToolTraits {
            read_only: #read_only,
            idempotent: #idempotent,
            destructive: #destructive,
        })
    }

    /// Returns an expression of the timeout.
    pub(crate) fn timeout(&self) -> Option<TokenStream> {
        self.timeout_ms.map(|number| quote!(::core::time::Duration::from_millis(#number)))
    }
}

fn once<T>(slot: &mut Option<T>, value: T, span: Span) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(span, "said twice: drop one of the two")),
    }
}

fn flag(meta: &ParseNestedMeta<'_>, span: Span) -> Result<Span> {
    if meta.input.peek(Token![=]) {
        Err(meta.error("a flag takes no value: write it, or leave it out"))
    } else {
        Ok(span)
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let value: Expr = meta.value()?.parse()?;
    match value {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Ok(text),
        other => Err(Error::new_spanned(other, "expected a text in quotes")),
    }
}

fn value<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<T> {
    let input = meta.value()?;
    let span = input.span();
    input.parse().map_err(|_| Error::new(span, format!("expected a value: `{example}`")))
}

pub(crate) enum ParameterDefault {
    /// `Default::default()`.
    Plain,
    /// `default = expression`.
    As(Box<Expr>),
}

/// Parses `#[tool(..)]` on a parameter.
pub(crate) fn of_parameter(attribute: &Attribute) -> Result<ParameterDefault> {
    let mut found = None;
    attribute.parse_nested_meta(|meta| {
        if !meta.path.is_ident("default") {
            return Err(meta.error(
                "a parameter takes `default` or `default = value` here; \
                 `#[serde(..)]` and `#[schemars(..)]` for all else",
            ));
        }
        let given = if meta.input.peek(Token![=]) {
            ParameterDefault::As(Box::new(meta.value()?.parse()?))
        } else {
            ParameterDefault::Plain
        };
        once(&mut found, given, meta.path.span())
    })?;
    found.ok_or_else(|| Error::new_spanned(attribute, "expected `default` or `default = value`"))
}

/// Returns whether an attribute is moved to the field that a parameter becomes.
pub(crate) fn is_for_field(attribute: &Attribute) -> bool {
    ["doc", "tool", "serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
}

/// Returns the item without attributes that only our expansion understands, so that the compiler
/// reports nothing but our own error.
pub(crate) fn without_ours(mut item: Item) -> Item {
    let stays =
        |attribute: &Attribute| !is_for_field(attribute) || attribute.path().is_ident("doc");
    match &mut item {
        Item::Fn(function) => {
            let inputs = std::mem::take(&mut function.sig.inputs).into_iter();
            let typed = inputs.filter(|input| matches!(input, FnArg::Typed(_)));
            function.sig.inputs = typed.collect();
            for input in &mut function.sig.inputs {
                if let FnArg::Typed(input) = input {
                    input.attrs.retain(|attribute| !is_for_field(attribute));
                }
            }
        }
        Item::Struct(structure) => {
            for field in &mut structure.fields {
                field.attrs.retain(stays);
            }
            structure.attrs.retain(stays);
        }
        Item::Enum(item) => item.attrs.retain(stays),
        _ => {}
    }
    item
}
