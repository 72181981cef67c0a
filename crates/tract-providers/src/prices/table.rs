//! The formats of price tables: the built-in one, one by name, and LiteLLM's.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::PriceError;
use super::names;

/// Microseconds of a minute.
const MINUTE_US: i64 = 60_000_000;
/// Minutes of a day.
const DAY: i64 = 24 * 60;

/// The prices of a model's tokens. A missing cache price equals the input price. One-hour cache
/// writes cost twice the input if there is a price for cache writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Price {
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) cache_read: f64,
    pub(super) cache_write: f64,
    pub(super) cache_write_1h: f64,
}

impl Price {
    fn of(input: f64, output: f64, caches: [Option<f64>; 3]) -> Self {
        let [read, write, write_1h] = caches;
        let hour = write_1h.or(write.map(|_| 2.0 * input)).unwrap_or(input);
        Self {
            input,
            output,
            cache_read: read.unwrap_or(input),
            cache_write: write.unwrap_or(input),
            cache_write_1h: hour,
        }
    }

    /// Returns a price that is negative or not finite.
    fn invalid(&self) -> Option<f64> {
        let Self { input, output, cache_read, cache_write, cache_write_1h } = *self;
        let all = [input, output, cache_read, cache_write, cache_write_1h];
        all.into_iter().find(|price| !price.is_finite() || *price < 0.0)
    }

    /// Reads a list of prices in the order of the fields.
    fn listed(prices: &[Option<f64>]) -> Self {
        let at = |place: usize| prices.get(place).copied().flatten();
        Self::of(at(0).unwrap_or_default(), at(1).unwrap_or_default(), [at(2), at(3), at(4)])
    }
}

/// Prices during a period, by the size of the request.
#[derive(Clone, Debug, PartialEq)]
struct Period {
    /// The first day, in microseconds since 1970.
    from: Option<i64>,
    /// The start and end of a daily period, in minutes of the day, UTC.
    hours: Option<(i64, i64)>,
    base: Price,
    /// Prices of requests with more than this number of tokens; the largest number is last.
    above: Vec<(u64, Price)>,
}

impl Period {
    fn always(base: Price, above: Vec<(u64, Price)>) -> Self {
        Self { from: None, hours: None, base, above }
    }

    fn applies(&self, at: i64) -> bool {
        let minute = at.div_euclid(MINUTE_US).rem_euclid(DAY);
        let is_hour = self.hours.is_none_or(|(start, end)| match start <= end {
            true => (start..end).contains(&minute),
            false => minute >= start || minute < end,
        });
        is_hour && self.from.is_none_or(|from| at >= from)
    }
}

/// The prices of a model over time, and the size of its context.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct History {
    periods: Vec<Period>,
    /// Maximum number of tokens of a request and its answer, if the table has it.
    pub(super) context_window: Option<u64>,
}

impl History {
    /// Returns the history unless a price is negative or not finite.
    fn checked(self, model: &str) -> Result<Self, PriceError> {
        let tiers = |period: &Period| {
            let above = period.above.iter().map(|(_, price)| price.invalid());
            std::iter::once(period.base.invalid()).chain(above).flatten().next()
        };
        match self.periods.iter().find_map(tiers) {
            Some(price) => Err(PriceError::Price { model: model.to_owned(), price }),
            None => Ok(self),
        }
    }

    /// Returns the prices at a time for a request of this size in tokens.
    pub(super) fn at(&self, at: i64, request: u64) -> Option<Price> {
        // The last period that applies, else the first period.
        let period = self.periods.iter().rev().find(|period| period.applies(at));
        let period = period.or(self.periods.first())?;
        let tier = period.above.iter().rev().find(|(start, _)| request > *start);
        Some(tier.map_or(period.base, |(_, price)| *price))
    }
}

/// Prices by the names of models.
#[derive(Clone, Debug)]
pub(super) enum Models {
    /// Prices by name; each name also without the prefixes and suffixes of hosts.
    Named(BTreeMap<String, History>),
    /// Providers, each with patterns of model names.
    Matched(Vec<Provider>),
}

#[derive(Clone, Debug)]
pub(super) struct Provider {
    id: String,
    is_vendor: bool,
    /// Patterns separated by spaces, and the prices of the matching models.
    models: Vec<(String, History)>,
}

impl Provider {
    fn find(&self, name: &str) -> Option<&History> {
        let is_match = |patterns: &str| patterns.split(' ').any(|glob| names::matches(glob, name));
        self.models.iter().find(|(patterns, _)| is_match(patterns)).map(|(_, prices)| prices)
    }
}

impl Models {
    /// Finds the prices of a model; the name is in lower case.
    pub(super) fn find(&self, name: &str) -> Option<&History> {
        let variants = names::variants(name);
        let providers = match self {
            Self::Named(models) => {
                let exact = models.get(name);
                return exact.or_else(|| variants.iter().find_map(|name| models.get(name)));
            }
            Self::Matched(_) if names::is_local(name) => return None,
            Self::Matched(providers) => providers,
        };
        let hosts = || providers.iter().filter(|provider| !provider.is_vendor);
        // A name that begins with a host has the prices of the host.
        if let Some((first, tail)) = name.split_once('/')
            && let Some(host) = hosts().find(|host| names::is_host(first, &host.id))
            && let Some(prices) = host.find(tail)
        {
            return Some(prices);
        }
        let vendors = || providers.iter().filter(|provider| provider.is_vendor);
        let of_vendor =
            variants.iter().find_map(|name| vendors().find_map(|vendor| vendor.find(name)));
        of_vendor.or_else(|| {
            // `amazon.nova-lite-v1:0` is a name at a host, and so is `qwen/qwen3-coder`.
            let last = name.rsplit('/').next().unwrap_or(name);
            let of_host = |id: &str, name: &str| hosts().find(|host| host.id == id)?.find(name);
            let cloud = last.contains('.').then(|| of_host("aws", last)).flatten();
            cloud.or_else(|| name.contains('/').then(|| of_host("openrouter", name)).flatten())
        })
    }
}

#[derive(Deserialize)]
struct Builtin<'a> {
    date: String,
    currency: String,
    per: f64,
    #[serde(borrow)]
    providers: Vec<BuiltinProvider<'a>>,
}

#[derive(Deserialize)]
struct BuiltinProvider<'a> {
    id: &'a str,
    kind: &'a str,
    #[serde(borrow)]
    models: Vec<BuiltinModel<'a>>,
}

/// Patterns, prices, and the size of the context.
#[derive(Deserialize)]
struct BuiltinModel<'a>(
    #[serde(borrow)] Cow<'a, str>,
    #[serde(borrow)] Vec<BuiltinPeriod<'a>>,
    #[serde(default)] Option<u64>,
);

#[derive(Deserialize)]
struct BuiltinPeriod<'a> {
    prices: Vec<Option<f64>>,
    #[serde(default)]
    above: Vec<Vec<Option<f64>>>,
    from: Option<&'a str>,
    hours: Option<(i64, i64)>,
}

impl From<BuiltinPeriod<'_>> for Period {
    fn from(period: BuiltinPeriod<'_>) -> Self {
        let tier = |tier: &Vec<Option<f64>>| {
            let (start, prices) = tier.split_first()?;
            Some(((*start)? as u64, Price::listed(prices)))
        };
        Self {
            from: period.from.and_then(day),
            hours: period.hours,
            base: Price::listed(&period.prices),
            above: period.above.iter().filter_map(tier).collect(),
        }
    }
}

/// Returns the first microsecond of a day such as `2026-01-31`.
pub(super) fn day(text: &str) -> Option<i64> {
    tract_core::time::parse_rfc3339(&format!("{text}T00:00:00Z")).ok()
}

/// The head of a table: the day, the currency, and the number of tokens per price.
pub(super) struct Parsed {
    pub(super) date: String,
    pub(super) currency: String,
    pub(super) per: f64,
    pub(super) models: Models,
}

/// Reads the built-in table.
pub(super) fn builtin(text: &str) -> Result<Parsed, serde_json::Error> {
    let table: Builtin<'_> = serde_json::from_str(text)?;
    let providers = table.providers.into_iter().map(|provider| Provider {
        id: provider.id.to_owned(),
        is_vendor: provider.kind == "vendor",
        models: provider
            .models
            .into_iter()
            .map(|BuiltinModel(names, periods, context_window)| {
                let periods = periods.into_iter().map(Period::from).collect();
                (names.into_owned(), History { periods, context_window })
            })
            .collect(),
    });
    let models = Models::Matched(providers.collect());
    Ok(Parsed { date: table.date, currency: table.currency, per: table.per, models })
}

#[derive(Deserialize)]
struct Named {
    date: String,
    #[serde(default = "dollars")]
    currency: String,
    #[serde(default = "million")]
    per: f64,
    models: BTreeMap<String, NamedPrice>,
}

fn dollars() -> String {
    "USD".to_owned()
}

fn million() -> f64 {
    1e6
}

#[derive(Deserialize)]
struct NamedPrice {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
    context_window: Option<u64>,
}

/// Reads the table of `--prices`: one by name, or LiteLLM's.
pub(super) fn parse(text: &str) -> Result<Parsed, PriceError> {
    let error = match serde_json::from_str::<Named>(text) {
        Ok(Named { date, currency, per, models }) => {
            let price = |model: NamedPrice| {
                let caches = [model.cache_read, model.cache_write, model.cache_write_1h];
                let price = Price::of(model.input, model.output, caches);
                let periods = vec![Period::always(price, Vec::new())];
                History { periods, context_window: model.context_window }
            };
            if !per.is_finite() || per <= 0.0 {
                return Err(PriceError::Unit { per });
            }
            let checked = |(name, model): (String, NamedPrice)| {
                let history = price(model).checked(&name)?;
                Ok((name, history))
            };
            let models: Vec<_> = models.into_iter().map(checked).collect::<Result<_, _>>()?;
            return Ok(Parsed { date, currency, per, models: named(models.into_iter()) });
        }
        Err(error) => error,
    };
    // LiteLLM's table has an object per model. Its sample entry is not a model.
    let entries: BTreeMap<Cow<'_, str>, &RawValue> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(error) => return Err(PriceError::syntax(&error)),
    };
    let models = entries.iter().filter(|(name, _)| *name != "sample_spec");
    let priced = models.filter_map(|(name, raw)| Some((name.to_string(), litellm(raw)?)));
    let checked = |(name, history): (String, History)| {
        let history = history.checked(&name)?;
        Ok((name, history))
    };
    let models: Vec<_> = priced.map(checked).collect::<Result<_, PriceError>>()?;
    if models.is_empty() {
        return Err(PriceError::syntax(&error));
    }
    let models = named(models.into_iter());
    Ok(Parsed { date: "LiteLLM".to_owned(), currency: dollars(), per: 1.0, models })
}

/// Inserts prices under their names, and under the names without the additions of hosts unless
/// these exist already.
fn named(models: impl Iterator<Item = (String, History)>) -> Models {
    let given: Vec<_> = models.map(|(name, history)| (names::lower(&name), history)).collect();
    let mut by_name: BTreeMap<String, History> = given.iter().cloned().collect();
    for (name, prices) in given {
        for name in names::variants(&name) {
            by_name.entry(name).or_insert_with(|| prices.clone());
        }
    }
    Models::Named(by_name)
}

/// The members of an entry of LiteLLM's table.
type LiteLlm<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Returns a number of an entry. Some numbers are strings.
fn number(members: &LiteLlm<'_>, name: &str) -> Option<f64> {
    members.get(name)?.get().trim_matches('"').parse().ok()
}

/// Reads the member `tiered_pricing`: prices by the size of the request, each with the range of its
/// tokens. The smallest range is first.
fn tiers(members: &LiteLlm<'_>) -> Vec<(u64, Price)> {
    let listed = members.get("tiered_pricing").map_or("[]", |raw| raw.get());
    let listed: Vec<LiteLlm<'_>> = serde_json::from_str(listed).unwrap_or_default();
    let tier = |tier: &LiteLlm<'_>| {
        let range: Vec<f64> = serde_json::from_str(tier.get("range")?.get()).ok()?;
        let caches = [
            "cache_read_input_token_cost",
            "cache_creation_input_token_cost",
            "cache_creation_input_token_cost_above_1hr",
        ];
        let input = number(tier, "input_cost_per_token")?;
        let output = number(tier, "output_cost_per_token").unwrap_or_default();
        let price = Price::of(input, output, caches.map(|name| number(tier, name)));
        Some((*range.first()? as u64, price))
    };
    let mut tiers: Vec<_> = listed.iter().filter_map(tier).collect();
    tiers.sort_by_key(|(start, _)| *start);
    tiers
}

/// Reads the prices of a model in LiteLLM's table, which are per token. Models that are not priced
/// by the token are skipped.
fn litellm(raw: &RawValue) -> Option<History> {
    let members: LiteLlm<'_> = serde_json::from_str(raw.get()).ok()?;
    let price = |name: &str| number(&members, name);
    let prices = |end: &str, base: Option<&Price>| {
        let at = |name: &str| price(&format!("{name}{end}"));
        let input = at("input_cost_per_token").or(base.map(|base| base.input))?;
        let output = at("output_cost_per_token").or(base.map(|base| base.output));
        // A tier omits prices that do not change.
        let cache = |name: &str, of: fn(&Price) -> f64, has: bool| {
            at(name).or_else(|| base.filter(|_| has).map(of))
        };
        let has = |name: &str| members.contains_key(name);
        let read = "cache_read_input_token_cost";
        let write = "cache_creation_input_token_cost";
        let hour = "cache_creation_input_token_cost_above_1hr";
        let caches = [
            cache(read, |base| base.cache_read, has(read)),
            cache(write, |base| base.cache_write, has(write)),
            cache(hour, |base| base.cache_write_1h, has(hour)),
        ];
        Some(Price::of(input, output.unwrap_or_default(), caches))
    };
    let mut tiers = tiers(&members);
    // Models with tiers often have no other price. That of small requests is the first tier.
    let base = match prices("", None) {
        Some(base) => base,
        None if tiers.is_empty() => return None,
        None => tiers.remove(0).1,
    };
    let starts = members.keys().filter_map(|name| {
        let start = name.strip_prefix("input_cost_per_token_above_")?.strip_suffix("k_tokens")?;
        start.parse::<u64>().ok()
    });
    let mut above: Vec<(u64, Price)> = starts
        .filter_map(|start| {
            let price = prices(&format!("_above_{start}k_tokens"), Some(&base))?;
            Some((start.saturating_mul(1000), price))
        })
        .collect();
    above.extend(tiers.into_iter().filter(|(start, _)| *start > 0));
    above.sort_by_key(|(start, _)| *start);
    let context_window = price("max_input_tokens").filter(|tokens| *tokens > 0.0);
    let context_window = context_window.map(|tokens| tokens as u64);
    Some(History { periods: vec![Period::always(base, above)], context_window })
}
