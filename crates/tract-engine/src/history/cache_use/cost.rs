//! How many tokens were sent again, by what was recorded or else by what was counted.

use super::answers::{Answer, RecordedUsage};
use super::compare::Comparison;
use super::{CacheMiss, CacheUse, MissCause};

/// Providers that cache by themselves keep prefixes in steps of so many tokens.
const STEP: u64 = 128;
/// Such providers cache nothing shorter.
const LEAST: u64 = 1024;
/// How long a cache lives after its last use, unless more was paid for: 5 minutes, in microseconds.
const LIFETIME_US: i64 = 5 * 60 * 1_000_000;
/// How long a cache lives that was written for an hour.
const LONG_LIFETIME_US: i64 = 60 * 60 * 1_000_000;

/// Tokens of a conversation that the provider keeps, by how long they live after their last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachedTokens {
    minutes: u64,
    hour: u64,
}

impl CachedTokens {
    /// The tokens that are kept after a request: those that it read, and those that it wrote. A
    /// request reads from the start, where the tokens for an hour are.
    pub(super) fn after(self, answer: &Answer) -> Self {
        let Some(usage) = answer.usage else { return self };
        let hour = self.hour.min(usage.read);
        let written = usage.written.unwrap_or_default();
        Self {
            minutes: (usage.read - hour).saturating_add(written.saturating_sub(usage.written_1h)),
            hour: hour.saturating_add(usage.written_1h),
        }
    }

    /// Returns whether a pause explains that this number of tokens was sent again.
    fn is_expired(self, again: u64, pause: i64) -> bool {
        pause >= LONG_LIFETIME_US
            || (pause >= LIFETIME_US
                && (self.hour == 0 || again < self.minutes.saturating_add(STEP)))
    }
}

/// Puts together what is known of a request and of the one before it.
pub(super) fn cache_use(
    branch: &str,
    answer: &Answer,
    earlier: Option<(&Answer, CachedTokens)>,
    comparison: Option<&Comparison>,
) -> CacheUse {
    let before = earlier.map(|(before, _)| before);
    let recorded = answer.usage.zip(before.map_or(answer.usage, |before| before.usage));
    let counted = comparison.map_or(0, |comparison| comparison.prompt);
    let mut result = CacheUse {
        branch: branch.to_owned(),
        answer: answer.first,
        request: answer.request,
        before: before.map(|before| before.first),
        model: answer.model.clone(),
        at: answer.at,
        is_recorded: recorded.is_some(),
        prompt: counted,
        read: 0,
        written: None,
        written_1h: 0,
        again: 0,
        miss: None,
    };
    if let Some((usage, _)) = recorded {
        (result.prompt, result.read, result.written) = (usage.prompt, usage.read, usage.written);
        result.written_1h = usage.written_1h;
    }
    let Some((before, kept)) = earlier else { return result };
    let switch = model_switch(before, answer);
    if let Some((usage, earlier)) = recorded {
        result.again = cached(earlier, before).min(usage.prompt).saturating_sub(usage.read);
        // Less than a step is the end of a prefix that was not kept.
        if result.again < STEP {
            result.again = 0;
            return result;
        }
        let found = switch.or_else(|| comparison.and_then(|found| found.miss.clone()));
        result.miss = Some(found.unwrap_or_else(|| {
            let is_expired = |pause| kept.is_expired(result.again, pause);
            unseen(before, answer, comparison, is_expired)
        }));
        return result;
    }
    let Some(comparison) = comparison else { return result };
    let had = comparison.before.min(comparison.prompt);
    let miss = switch.clone().or_else(|| comparison.miss.clone());
    result.read = match (&switch, &miss) {
        (Some(_), _) => 0,
        (None, Some(_)) => comparison.same.min(had),
        (None, None) => had,
    };
    result.again = had - result.read;
    result.miss = miss.filter(|_| result.again > 0);
    result
}

/// Returns the tokens of a request that the provider kept for the next one: as far as the request
/// asked for it, or, where the provider caches by itself, whole steps.
fn cached(usage: RecordedUsage, answer: &Answer) -> u64 {
    let written = usage.written.unwrap_or_default();
    let asks = written > 0 || answer.model.as_ref().is_some_and(|model| model.contains("claude"));
    match asks {
        true => usage.read.saturating_add(written),
        false if usage.prompt < LEAST => 0,
        false => usage.prompt / STEP * STEP,
    }
}

fn model_switch(before: &Answer, answer: &Answer) -> Option<CacheMiss> {
    let (old, new) = (before.model.as_ref()?, answer.model.as_ref()?);
    (old != new).then(|| CacheMiss {
        cause: MissCause::ModelSwitch,
        block: None,
        before: Some(old.clone()),
        after: Some(new.clone()),
    })
}

/// Names the cause when no block that was recorded differs.
fn unseen(
    before: &Answer,
    answer: &Answer,
    comparison: Option<&Comparison>,
    is_expired: impl Fn(i64) -> bool,
) -> CacheMiss {
    let none = |cause| CacheMiss { cause, block: None, before: None, after: None };
    if before.mode != answer.mode {
        let other = |these: &[(String, String)], those: &[(String, String)]| {
            let other = these.iter().filter(|member| !those.contains(member));
            let other: Vec<String> = other.map(|(name, raw)| format!("{name} {raw}")).collect();
            Some(other.join(", ")).filter(|text| !text.is_empty())
        };
        return CacheMiss {
            before: other(&before.mode, &answer.mode),
            after: other(&answer.mode, &before.mode),
            ..none(MissCause::ModeSwitch)
        };
    }
    if let Some(block) = comparison.and_then(|comparison| comparison.late_system.clone()) {
        return CacheMiss { block: Some(block), ..none(MissCause::SystemPrompt) };
    }
    let pause = answer.at.zip(before.at).map(|(now, then)| now.saturating_sub(then));
    match pause {
        Some(pause) if is_expired(pause) => {
            let minutes = pause / 60_000_000;
            let after = Some(format!("{minutes} min after the answer before"));
            CacheMiss { after, ..none(MissCause::Expired) }
        }
        _ => none(MissCause::NotRecorded),
    }
}
