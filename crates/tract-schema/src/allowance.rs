//! The limits of strict mode for one request.

use crate::dialect::{Dialect, StrictMode};
use crate::loss::{Loss, LossKind};

/// Anthropic's limits per request, for all strict tools together.
const MOST_TOOLS_ANTHROPIC: usize = 20;
const MOST_OPTIONAL_ANTHROPIC: usize = 24;
const MOST_UNIONS_ANTHROPIC: usize = 16;

/// The share of a request's strict-mode limits that one schema uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StrictCost {
    /// Number of optional properties, at any level.
    pub optional: usize,
    /// Number of schemas with several types or alternatives, at any level.
    pub unions: usize,
}

/// The remaining strict-mode allowance of one request. Anthropic rejects requests whose strict
/// tools exceed 20 tools, 24 optional properties or 16 properties of several types in total. OpenAI
/// limits each tool separately, which [`to_strict`](crate::to_strict) checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrictAllowance {
    limited: bool,
    tools: usize,
    cost: StrictCost,
}

impl StrictAllowance {
    /// Creates the allowance of a request without tools.
    pub fn new(dialect: Dialect) -> Self {
        let limited = dialect.tools().strict == Some(StrictMode::Anthropic);
        Self { limited, tools: 0, cost: StrictCost::default() }
    }

    /// Deducts the cost of one more tool. Returns the reason and deducts nothing if a limit would
    /// be exceeded.
    pub(crate) fn take(&mut self, cost: StrictCost) -> Result<(), Loss> {
        let sum = StrictCost {
            optional: self.cost.optional + cost.optional,
            unions: self.cost.unions + cost.unions,
        };
        let limits = [
            ("strict tools", MOST_TOOLS_ANTHROPIC, self.tools + 1),
            ("properties that may be absent", MOST_OPTIONAL_ANTHROPIC, sum.optional),
            ("properties of several types", MOST_UNIONS_ANTHROPIC, sum.unions),
        ];
        let over = limits.into_iter().find(|(_, limit, found)| self.limited && found > limit);
        if let Some((what, limit, found)) = over {
            let why = format!("a request may have {limit} {what}, with this tool it has {found}");
            return Err(Loss::new(LossKind::NotExpressible, "strict", why));
        }
        self.tools += 1;
        self.cost = sum;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anthropics_requests_have_an_allowance_of_strict_tools() {
        let tool = |properties: &str| {
            let text = format!(
                r#"{{"name":"f","parameters":{{"type":"object","properties":{{{properties}}}}}}}"#
            );
            move |allowance: &mut StrictAllowance, provider| {
                let made = crate::translate_within(&text, provider, "f", allowance).unwrap();
                let value: serde_json::Value = serde_json::from_str(&made.text.unwrap()).unwrap();
                let function = value.get("function").unwrap_or(&value);
                assert_eq!(function["strict"], made.strict, "it is said in so many words");
                let why = made.losses.into_iter().find(|loss| loss.path == "strict");
                (made.strict, why.map(|loss| loss.message))
            }
        };
        let many = |count: usize, schema: &str| {
            let one = |n| format!(r#""p{n}":{schema}"#);
            (0..count).map(one).collect::<Vec<_>>().join(",")
        };
        let absent = tool(&many(10, r#"{"type":"string"}"#));
        let unions = tool(&many(9, r#"{"type":["string","null"]}"#));
        let plain = tool("");
        let mut allowance = StrictAllowance::new(Dialect::Anthropic);
        assert!(absent(&mut allowance, Dialect::Anthropic).0);
        assert!(unions(&mut allowance, Dialect::Anthropic).0, "19 may be absent, 9 are unions");
        let (strict, why) = absent(&mut allowance, Dialect::Anthropic);
        assert!(!strict);
        assert!(
            why.unwrap().contains("24 properties that may be absent, with this tool it has 29")
        );
        for n in 2..20 {
            assert!(
                plain(&mut allowance, Dialect::Anthropic).0,
                "what was refused took nothing: {n}"
            );
        }
        let (strict, why) = plain(&mut allowance, Dialect::Anthropic);
        assert!(!strict && why.unwrap().contains("20 strict tools"));
        let mut allowance = StrictAllowance::new(Dialect::OpenAi);
        assert!((0..50).all(|_| absent(&mut allowance, Dialect::OpenAi).0), "each for itself");
    }
}
