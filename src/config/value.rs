//! How each kind of configuration value is read from TOML or from an environment variable, and
//! shown. Never shows a secret.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use crate::secret::Secret;

/// A type that can stand behind a configuration key.
pub trait ConfigValue: Sized {
    /// The kind in words.
    const KIND: &'static str;
    /// Whether the value must never be shown.
    const SECRET: bool = false;

    /// What the key holds when nobody set it and it has no default.
    fn unset() -> Option<Self> {
        None
    }

    /// Reads a TOML value.
    fn from_toml(value: &Value) -> Result<Self, String>;

    /// Reads the text of an environment variable: as TOML, or as a bare string.
    fn from_text(text: &str) -> Result<Self, String> {
        let as_toml = format!("x = {text}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("x"));
        let read = as_toml.map(|value| Self::from_toml(&value));
        match read {
            Some(Ok(parsed)) => Ok(parsed),
            // What is wrong with the value says more than that it is no text either.
            Some(Err(problem)) => Self::from_toml(&Value::String(text.to_owned())).map_err(|_| problem),
            None => Self::from_toml(&Value::String(text.to_owned())),
        }
    }

    /// The value for people.
    fn show(&self) -> String;
}

fn wrong<T>(kind: &str, value: &Value) -> Result<T, String> {
    Err(format!("{kind} is expected, found {}", value.type_str()))
}

impl ConfigValue for bool {
    const KIND: &'static str = "true or false";
    fn from_toml(value: &Value) -> Result<Self, String> {
        value.as_bool().map_or_else(|| wrong(Self::KIND, value), Ok)
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! whole_number {
    ($($kind:ty),*) => {$(
        impl ConfigValue for $kind {
            const KIND: &'static str = "a whole number";
            fn from_toml(value: &Value) -> Result<Self, String> {
                let Some(number) = value.as_integer() else { return wrong(Self::KIND, value) };
                <$kind>::try_from(number).map_err(|_| format!("{number} is outside 0 to {}", <$kind>::MAX))
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
whole_number!(u32, u64);

impl ConfigValue for f64 {
    const KIND: &'static str = "a number";
    fn from_toml(value: &Value) -> Result<Self, String> {
        match value {
            Value::Float(number) if number.is_finite() => Ok(*number),
            Value::Integer(number) => Ok(*number as f64),
            _ => wrong(Self::KIND, value),
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// No time that is waited for is longer; added to a point in time, much longer ones overflow.
const LONGEST_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

/// Seconds, whole or with a fraction.
impl ConfigValue for Duration {
    const KIND: &'static str = "seconds";
    fn from_toml(value: &Value) -> Result<Self, String> {
        let seconds = f64::from_toml(value)
            .map_err(|_| format!("a number of seconds is expected, found {}", value.type_str()))?;
        if seconds > LONGEST_SECONDS {
            return Err(format!("{seconds} seconds are longer than a year"));
        }
        Duration::try_from_secs_f64(seconds).map_err(|_| format!("{seconds} is not a length of time"))
    }
    fn show(&self) -> String {
        self.as_secs_f64().to_string()
    }
}

impl ConfigValue for String {
    const KIND: &'static str = "text";
    fn from_toml(value: &Value) -> Result<Self, String> {
        value
            .as_str()
            .map_or_else(|| wrong(Self::KIND, value), |text| Ok(text.to_owned()))
    }
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
    fn show(&self) -> String {
        self.clone()
    }
}

impl ConfigValue for PathBuf {
    const KIND: &'static str = "a path";
    fn from_toml(value: &Value) -> Result<Self, String> {
        String::from_toml(value).map(PathBuf::from)
    }
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(PathBuf::from(text))
    }
    fn show(&self) -> String {
        self.display().to_string()
    }
}

impl ConfigValue for SocketAddr {
    const KIND: &'static str = "address:port";
    fn from_toml(value: &Value) -> Result<Self, String> {
        let text = String::from_toml(value)?;
        text.parse()
            .map_err(|_| format!("{text:?} is not an address with a port, such as 127.0.0.1:8080"))
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl ConfigValue for Secret {
    const KIND: &'static str = "a secret";
    const SECRET: bool = true;
    fn from_toml(value: &Value) -> Result<Self, String> {
        String::from_toml(value).map(Secret::new)
    }
    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Secret::new(text))
    }
    fn show(&self) -> String {
        "***".to_owned()
    }
}

impl<T: ConfigValue> ConfigValue for Option<T> {
    const KIND: &'static str = T::KIND;
    const SECRET: bool = T::SECRET;
    fn unset() -> Option<Self> {
        Some(None)
    }
    fn from_toml(value: &Value) -> Result<Self, String> {
        T::from_toml(value).map(Some)
    }
    fn from_text(text: &str) -> Result<Self, String> {
        T::from_text(text).map(Some)
    }
    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "(not set)".to_owned(), T::show)
    }
}

impl<T: ConfigValue> ConfigValue for Vec<T> {
    const KIND: &'static str = "a list";
    fn from_toml(value: &Value) -> Result<Self, String> {
        match value {
            Value::Array(items) => items.iter().map(T::from_toml).collect(),
            _ => wrong(Self::KIND, value),
        }
    }
    /// As TOML, or as items separated by commas.
    fn from_text(text: &str) -> Result<Self, String> {
        let as_toml = format!("x = {text}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("x"));
        if let Some(value @ Value::Array(_)) = as_toml {
            return Self::from_toml(&value);
        }
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(T::from_text)
            .collect()
    }
    fn show(&self) -> String {
        format!("[{}]", self.iter().map(T::show).collect::<Vec<_>>().join(", "))
    }
}

/// Prices of models: pattern of the name → US dollars for a million tokens of input, of output
/// and, where it has a price of its own, of cached input.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PriceTable(pub BTreeMap<String, Vec<f64>>);

impl ConfigValue for PriceTable {
    const KIND: &'static str = "a table of prices";
    fn from_toml(value: &Value) -> Result<Self, String> {
        let Value::Table(table) = value else {
            return wrong("a table such as { \"gpt-5*\" = [1.25, 10.0] }", value);
        };
        let mut prices = BTreeMap::new();
        for (pattern, row) in table {
            let numbers = Vec::<f64>::from_toml(row).unwrap_or_default();
            if !(2..=3).contains(&numbers.len()) || numbers.iter().any(|price| !price.is_finite() || *price < 0.0) {
                return Err(format!(
                    "{pattern:?}: two or three prices of 0 or more are expected: [input, output] or [input, output, \
                     cached input]"
                ));
            }
            prices.insert(pattern.clone(), numbers);
        }
        Ok(Self(prices))
    }
    fn show(&self) -> String {
        let row = |(pattern, prices): (&String, &Vec<f64>)| format!("{pattern:?} = {}", prices.show());
        match self.0.is_empty() {
            true => "{}".to_owned(),
            false => format!("{{ {} }}", self.0.iter().map(row).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Declares an enum whose values are words in the file.
macro_rules! choice {
    ($(#[$doc:meta])* pub enum $name:ident { $( $(#[$item_doc:meta])* $item:ident = $word:literal, )* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[$item_doc])* $item, )* }

        impl ConfigValue for $name {
            const KIND: &'static str = concat!("one of", $(" `", $word, "`"),*);
            fn from_toml(value: &toml::Value) -> Result<Self, String> {
                match value.as_str() {
                    $( Some($word) => Ok($name::$item), )*
                    Some(other) => Err(format!("{other:?} is not {}", Self::KIND)),
                    None => Err(format!("{} is expected, found {}", Self::KIND, value.type_str())),
                }
            }
            fn show(&self) -> String {
                match self { $( $name::$item => $word.to_owned(), )* }
            }
        }
    };
}
pub(super) use choice;
