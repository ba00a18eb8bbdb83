//! Which types hold a name as text.
//!
//! They are `&str` and `String`, each by itself or beside a port, and references to them: all that std's trait is implemented for and that
//! asks the resolver. A type that is none of them is not looked into.
//!
//! A generic function cannot ask a type with lifetimes for its `TypeId`, which is for types without. So it asks `typeid`, whose answer
//! is that of the type with all lifetimes replaced by `'static`, and what is then done with it does not depend on lifetimes (E1).
#![expect(unsafe_code, reason = "takes a value for one of a type that differs in lifetimes")]

/// A name that may have to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// A host and a port, as one text.
    Text(&'a str),
    Host(&'a str, u16),
}

/// The name in a value, if it is of a type that holds one.
pub(super) fn of<A>(value: &A) -> Option<Named<'_>> {
    text_in(value).map(Named::Text).or_else(|| host_in(value))
}

fn text_in<A>(value: &A) -> Option<&str> {
    // SAFETY: E1, here and below: the lifetimes in the types asked for are those of `value` itself, the shortest there are.
    if let Some(text) = unsafe { as_type::<A, &str>(value) } {
        return Some(text);
    }
    // SAFETY: as above.
    if let Some(text) = unsafe { as_type::<A, String>(value) } {
        return Some(text);
    }
    // SAFETY: as above.
    if let Some(text) = unsafe { as_type::<A, &String>(value) } {
        return Some(text);
    }
    // SAFETY: as above.
    unsafe { as_type::<A, &&str>(value) }.map(|text| **text)
}

fn host_in<A>(value: &A) -> Option<Named<'_>> {
    // SAFETY: E1, as above.
    if let Some((host, port)) = unsafe { as_type::<A, (&str, u16)>(value) } {
        return Some(Named::Host(host, *port));
    }
    // SAFETY: as above.
    if let Some((host, port)) = unsafe { as_type::<A, (String, u16)>(value) } {
        return Some(Named::Host(host, *port));
    }
    // SAFETY: as above.
    if let Some((host, port)) = unsafe { as_type::<A, &(&str, u16)>(value) } {
        return Some(Named::Host(host, *port));
    }
    // SAFETY: as above.
    let (host, port) = unsafe { as_type::<A, &(String, u16)>(value) }?;
    Some(Named::Host(host, *port))
}

/// The value, if `A` is `T` but for lifetimes.
///
/// # Safety
/// E1: `T` is covariant in its lifetimes, and none of them is longer than the reference's, `'a`.
unsafe fn as_type<'a, A, T: 'a>(value: &'a A) -> Option<&'a T> {
    // SAFETY: E1: the types are the same but for lifetimes, and the caller answers for those.
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
