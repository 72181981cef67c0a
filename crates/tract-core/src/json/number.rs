//! Parses and writes doubles as Python does.

use std::fmt::Write;

use super::JsonError;

/// Maximum length of a double: seventeen digits, a point, `e`, and an exponent such as `-324`.
const LONGEST: usize = 24;

/// Parses a JSON number as the nearest double; `None` if it is out of range.
pub(super) fn parse(lexeme: &str) -> Option<f64> {
    // The standard library ignores the digits of an exponent after the fifth. That is correct,
    // unless thousands of zeros in the mantissa compensate for the exponent.
    let value: f64 =
        if lexeme.len() < 1000 { lexeme.parse().ok()? } else { scientific(lexeme).parse().ok()? };
    value.is_finite().then_some(value)
}

/// Returns the number in scientific notation, with one non-zero digit before the point.
fn scientific(lexeme: &str) -> String {
    let (mantissa, exponent) = match lexeme.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, saturating(exponent)),
        None => (lexeme, 0),
    };
    let sign = if mantissa.starts_with('-') { "-" } else { "" };
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let zeros = digits.len() - significant.len();
    let Some((first, rest)) = significant.split_at_checked(1) else {
        return format!("{sign}0.0");
    };
    let exponent = exponent.saturating_add(whole.len() as i64 - 1 - zeros as i64);
    format!("{sign}{first}.{rest}e{exponent}")
}

fn saturating(exponent: &str) -> i64 {
    exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX })
}

/// Appends a double as Python's `repr`.
///
/// Writes the fewest digits that parse to the same double. Below `1e-4` and from `1e16` on it has
/// an exponent of at least two digits; otherwise at least one digit after the point.
///
/// ```
/// # use tract_core::json::write_f64;
/// let mut out = String::new();
/// for value in [1.0, -0.0, 0.1 + 0.2, 1e16, 0.00001] {
///     write_f64(&mut out, value)?;
///     out.push(' ');
/// }
/// assert_eq!(out, "1.0 -0.0 0.30000000000000004 1e+16 1e-05 ");
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError::NotFinite`] for infinities and NaN, which JSON cannot represent.
pub fn write_f64(out: &mut String, value: f64) -> Result<(), JsonError> {
    if !value.is_finite() {
        return Err(JsonError::NotFinite { offset: None });
    }
    let mut shortest = String::with_capacity(LONGEST);
    write!(shortest, "{:e}", value.abs()).expect("a string takes all that is written");
    if let Some(decimals) = halfway(value, &shortest) {
        let even = format!("{:.decimals$e}", value.abs());
        // Just below a power of two the doubles are closer, so the even text may be another double:
        // 5.960464477539062e-08 is not 2^-24.
        if even.parse() == Ok(value.abs()) {
            shortest = even;
        }
    }
    let (mantissa, exponent) = split(&shortest);
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));

    if value.is_sign_negative() {
        out.push('-');
    }
    if !(-4..16).contains(&exponent) {
        out.push_str(mantissa);
        out.push_str(if exponent < 0 { "e-" } else { "e+" });
        if exponent.abs() < 10 {
            out.push('0');
        }
        out.push_str(&exponent.abs().to_string());
    } else if exponent < 0 {
        out.push_str("0.");
        out.extend((1..-exponent).map(|_| '0'));
        out.push_str(first);
        out.push_str(rest);
    } else {
        let shift = exponent as usize;
        out.push_str(first);
        match rest.split_at_checked(shift) {
            Some((whole, fraction)) => {
                out.push_str(whole);
                out.push('.');
                out.push_str(if fraction.is_empty() { "0" } else { fraction });
            }
            None => {
                out.push_str(rest);
                out.extend((rest.len()..shift).map(|_| '0'));
                out.push_str(".0");
            }
        }
    }
    Ok(())
}

/// Returns the number of decimals of `shortest` if the double is exactly halfway between two
/// decimal texts of that length.
///
/// Python then chooses the one with an even last digit: `1.0000076293945312` for 1 + 2^-17. The
/// shortest form of the standard library ends in 3, but its form with a fixed number of decimals
/// rounds as Python does.
fn halfway(value: f64, shortest: &str) -> Option<usize> {
    let (mantissa, exponent) = split(shortest);
    let decimals = mantissa.len().saturating_sub(2);
    let place = exponent - decimals as i32;
    // A double that is halfway between two multiples of 10^place has 2^(place - 1) as its lowest
    // bit. Places before the point do not matter: such large doubles are never halfway.
    let bits = value.to_bits();
    let significand = bits & ((1 << 52) - 1) | 1 << 52;
    let lowest = significand.trailing_zeros() as i32 + (bits >> 52 & 0x7ff) as i32 - 1075;
    (place < 0 && lowest == place - 1).then_some(decimals)
}

fn split(scientific: &str) -> (&str, i32) {
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` writes an exponent");
    (mantissa, exponent.parse().expect("the exponent of a double is small"))
}
