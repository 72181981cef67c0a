//! Figures as people read them: short numbers, amounts of money, and small charts.

use std::fmt::Write;

use maud::{Markup, html};
use tract_core::text::{compact, number};

/// Shows a number of tokens, short, with the whole number on hover.
pub(crate) fn tokens(count: u64) -> Markup {
    html! { span title=(format!("{} tokens", number(count))) { (compact(count)) } }
}

/// Formats a cost. It is a lower bound if some requests do not have a price, and unknown if none has.
pub(crate) fn money(cost: f64, unpriced: u64, requests: u64) -> String {
    match unpriced {
        0 if requests == 0 => String::new(),
        n if n >= requests => "–".to_owned(),
        0 => format!("{cost:.2}"),
        _ => format!(">{cost:.2}"),
    }
}

/// Formats a share, from 0 to 1.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        n if n > 0.0 && n < 0.1 => "<0.1 %".to_owned(),
        n if n < 10.0 => format!("{n:.1} %"),
        n => format!("{n:.0} %"),
    }
}

/// Draws sizes as a small area.
pub(crate) fn sparkline(sizes: &[u64]) -> Markup {
    const WIDTH: f64 = 80.0;
    const HEIGHT: f64 = 20.0;
    let most = sizes.iter().copied().max().unwrap_or_default().max(1) as f64;
    let last = sizes.len().saturating_sub(1).max(1) as f64;
    let mut path = format!("M0 {HEIGHT}");
    for (place, size) in sizes.iter().enumerate() {
        let (x, y) = (WIDTH * place as f64 / last, HEIGHT - HEIGHT * *size as f64 / most);
        // Writing to a `String` cannot fail.
        let _ = write!(path, "L{x:.1} {y:.1}");
    }
    let _ = write!(path, "L{WIDTH} {HEIGHT}Z");
    html! {
        @if sizes.len() > 1 {
            svg .spark viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" aria-hidden="true" {
                path d=(path) {}
            }
        }
    }
}

/// Draws a share, from 0 to 1, as a bar.
pub(crate) fn meter(share: f64) -> Markup {
    let width = 96.0 * share.clamp(0.0, 1.0);
    html! {
        svg .meter viewBox="0 0 96 8" preserveAspectRatio="none" aria-hidden="true" {
            rect .cost-bar x="0" y="0" width=(format!("{width:.1}")) height="8" {}
        }
    }
}

/// Returns round numbers up to a maximum, about four of them, for the lines of an axis.
pub(crate) fn ticks(most: f64) -> Vec<f64> {
    if !most.is_finite() || most <= 0.0 {
        return Vec::new();
    }
    let raw = most / 4.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= raw);
    let step = step.unwrap_or(raw);
    // Without the last digits of a product such as 3 × 0.1.
    let tidy = |at: f64| format!("{at:.9}").parse().unwrap_or(at);
    (1..=8).map(|n| tidy(f64::from(n) * step)).take_while(|at| *at <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(money(1.234, 0, 3), "1.23");
        assert_eq!(money(1.234, 1, 3), ">1.23");
        assert_eq!(money(0.0, 3, 3), "–");
        assert_eq!(money(0.0, 0, 0), "");
        assert_eq!(percent(0.0004), "<0.1 %");
        assert_eq!(percent(0.25), "25 %");
    }

    #[test]
    fn axes_have_round_lines() {
        assert_eq!(ticks(100.0), [50.0, 100.0]);
        assert_eq!(ticks(190_000.0), [50_000.0, 100_000.0, 150_000.0]);
        assert_eq!(ticks(0.35), [0.1, 0.2, 0.3]);
        assert_eq!(ticks(0.0), [] as [f64; 0]);
    }
}
