//! Numbers of bytes, formatted and parsed for people.

/// Formats a number of bytes in decimal units, as usual for transfer rates.
pub(crate) fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        c if c < 1e3 => format!("{c} B"),
        c if c < 1e6 => format!("{:.1} kB", c / 1e3),
        c if c < 1e9 => format!("{:.1} MB", c / 1e6),
        c => format!("{:.2} GB", c / 1e9),
    }
}

/// Parses decimal units as in nginx's and curl's documentation (k, M, G), and binary units with an
/// `i` (Ki, Mi, Gi).
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" | "kB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        _ => return Err(format!("the unit `{unit}` is not one of k, M, G, Ki, Mi, Gi")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "write a number with a unit, such as 6M or 512Ki".to_string())?;
    number.checked_mul(factor).ok_or_else(|| "that is more than 64 bits can count".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every size are readable.
    #[test]
    fn units() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(600_000_000), "600.0 MB");
        assert_eq!(bytes(12_000_000_000), "12.00 GB");
    }

    /// Units are decimal unless they contain an `i`.
    #[test]
    fn sizes() {
        assert_eq!(parse_bytes("6M"), Ok(6_000_000));
        assert_eq!(parse_bytes("500k"), Ok(500_000));
        assert_eq!(parse_bytes("2Ki"), Ok(2048));
        assert_eq!(parse_bytes("17"), Ok(17));
    }

    /// The error for an invalid size shows valid ones.
    #[test]
    fn bad_sizes_are_refused() {
        assert!(parse_bytes("6X").unwrap_err().contains("`X`"));
        assert!(parse_bytes("M").unwrap_err().contains("6M"));
        assert!(parse_bytes("99999999999G").unwrap_err().contains("64 bits"));
    }
}
