//! Detection of the types that hold a name as text.
//!
//! They are `&str` and `String`, alone or with a port, and references to them. These are all the
//! types for which std's trait calls the resolver. Values of other types are not looked into.
//!
//! A generic function cannot ask for the `TypeId` of a type with lifetimes, because `TypeId`
//! requires `'static`. So it asks `typeid`, which answers for the type with all lifetimes replaced
//! by `'static`. Nothing that is then done with the value depends on its lifetimes (E1).
#![expect(unsafe_code, reason = "casts a reference between types that differ only in lifetimes")]

/// A name that may have to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// A host and a port in one string.
    Text(&'a str),
    Host(&'a str, u16),
}

/// Returns the name in a value, if the value's type is one that holds a name.
pub(super) fn of<A>(value: &A) -> Option<Named<'_>> {
    text_in(value).map(Named::Text).or_else(|| host_in(value))
}

/// Returns the value as the given type, if its type is that except for lifetimes.
macro_rules! as_type {
    ($value:expr, $type:ty) => {{
        // SAFETY: E1: the types asked for are covariant in their lifetimes, which are inferred to
        // be those of the reference.
        unsafe { as_type::<_, $type>($value) }
    }};
}

fn text_in<A>(value: &A) -> Option<&str> {
    if let Some(text) = as_type!(value, &str) {
        return Some(text);
    }
    if let Some(text) = as_type!(value, String) {
        return Some(text);
    }
    if let Some(text) = as_type!(value, &String) {
        return Some(text);
    }
    if let Some(text) = as_type!(value, &&String) {
        return Some(text);
    }
    if let Some(text) = as_type!(value, &&&str) {
        return Some(text);
    }
    as_type!(value, &&str).map(|text| **text)
}

fn host_in<A>(value: &A) -> Option<Named<'_>> {
    if let Some((host, port)) = as_type!(value, (&str, u16)) {
        return Some(Named::Host(host, *port));
    }
    if let Some((host, port)) = as_type!(value, (String, u16)) {
        return Some(Named::Host(host, *port));
    }
    if let Some((host, port)) = as_type!(value, &(&str, u16)) {
        return Some(Named::Host(host, *port));
    }
    if let Some((host, port)) = as_type!(value, &&(&str, u16)) {
        return Some(Named::Host(host, *port));
    }
    if let Some((host, port)) = as_type!(value, &&(String, u16)) {
        return Some(Named::Host(host, *port));
    }
    let (host, port) = as_type!(value, &(String, u16))?;
    Some(Named::Host(host, *port))
}

/// Returns the value as a `T`, if `A` and `T` differ only in lifetimes.
///
/// # Safety
/// E1: `T` is covariant in its lifetimes, and none of them is longer than the reference's, `'a`.
unsafe fn as_type<'a, A, T: 'a>(value: &'a A) -> Option<&'a T> {
    // SAFETY: E1: the types differ only in lifetimes, for which the caller is responsible.
    (typeid::of::<A>() == typeid::of::<T>()).then(|| unsafe { &*(&raw const *value).cast::<T>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};

    #[test]
    fn names_are_found_whatever_their_lifetimes() {
        let owned = String::from("host:1");
        let borrowed: &str = &owned.clone();
        for found in [of(&"host:1"), of(&borrowed), of(&owned), of(&&owned), of(&&borrowed)] {
            assert_eq!(found, Some(Named::Text("host:1")));
        }
        let host: &str = &borrowed[..4];
        let pair = (host.to_owned(), 1_u16);
        for found in [of(&("host", 1_u16)), of(&(host, 1_u16)), of(&pair), of(&&pair)] {
            assert_eq!(found, Some(Named::Host("host", 1)));
        }
        assert_eq!(of(&&(host, 1_u16)), Some(Named::Host("host", 1)));
    }

    #[test]
    fn other_types_are_left_alone() {
        struct Mine<'a>(#[expect(dead_code, reason = "only its type counts")] &'a str);
        assert_eq!(of(&Mine("host:1")), None);
        assert_eq!(of(&("host", 1_u32)), None);
        assert_eq!(of(&(Ipv4Addr::LOCALHOST, 1_u16)), None);
        assert_eq!(of(&SocketAddr::from(([127, 0, 0, 1], 1))), None);
        assert_eq!(of(&[SocketAddr::from(([127, 0, 0, 1], 1))].as_slice()), None);
    }
}
