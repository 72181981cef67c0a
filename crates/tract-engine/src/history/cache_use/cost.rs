//! Computes the tokens that were sent again, from reported usage or else from estimates.

use super::answers::{Answer, RecordedUsage};
use super::compare::Comparison;
use super::{CacheMiss, CacheUse, MissCause};

/// Granularity of prefixes at providers that cache automatically, in tokens.
const STEP: u64 = 128;
/// Minimum length of a prefix that such providers cache, in tokens.
const LEAST: u64 = 1024;
/// Default lifetime of a cache entry after its last use: 5 minutes, in microseconds.
const LIFETIME_US: i64 = 5 * 60 * 1_000_000;
/// Lifetime of a cache entry that was written for one hour, in microseconds.
const LONG_LIFETIME_US: i64 = 60 * 60 * 1_000_000;

/// The cached tokens of a conversation, by their lifetime after the last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachedTokens {
    minutes: u64,
    hour: u64,
}

impl CachedTokens {
    /// Returns the cached tokens after a request: those that it read, and those that it wrote. A
    /// request reads from the start, where the tokens with the long lifetime are.
    pub(super) fn after(self, answer: &Answer) -> Self {
        let Some(usage) = answer.usage else { return self };
        let hour = self.hour.min(usage.read);
        let written = usage.written.unwrap_or_default();
        Self {
            minutes: (usage.read - hour).saturating_add(written.saturating_sub(usage.written_1h)),
            hour: hour.saturating_add(usage.written_1h),
        }
    }

    /// Returns whether a pause of this length explains that `again` tokens were sent again.
    fn is_expired(self, again: u64, pause: i64) -> bool {
        pause >= LONG_LIFETIME_US
            || (pause >= LIFETIME_US
                && (self.hour == 0 || again < self.minutes.saturating_add(STEP)))
    }
}

/// Combines the recorded data and the comparison of a request.
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
        // Fewer tokens than one step are the remainder of a prefix that is not cached.
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

/// Returns the tokens of a request that the provider kept for the next one: as many as the request
/// asked for or, at providers that cache automatically, whole steps.
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

/// Returns the cause of a miss if no recorded block differs.
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
