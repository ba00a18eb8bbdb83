//! Nkeys: Ed25519 keys in NATS's own encoding.
//!
//! A seed is base32 of two bytes for the prefix `S` and the kind of key, 32 bytes of seed, and a
//! checksum. A public key is base32 of one byte for the kind, 32 bytes of key, and a checksum.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// The prefix of a seed, in the upper five bits.
const SEED: u8 = 18 << 3;

/// A key that signs. It is never shown.
pub(crate) struct KeyPair {
    kind: u8,
    key: Ed25519KeyPair,
}

impl KeyPair {
    pub(crate) fn from_seed(text: &str) -> Result<KeyPair, &'static str> {
        let bytes = BASE32_NOPAD.decode(text.as_bytes()).map_err(|_| "it is not base32")?;
        let bytes: [u8; 36] = bytes.try_into().map_err(|_| "its length is wrong")?;
        let (content, sum) = bytes.split_at(34);
        if checksum(content).to_le_bytes() != sum {
            return Err("its checksum is wrong");
        }
        if content[0] & 0xf8 != SEED {
            return Err("it is not a seed");
        }
        // The kind's five bits are spread over two bytes.
        let kind = (content[0] & 0x07) << 5 | content[1] >> 3;
        let key = Ed25519KeyPair::from_seed_unchecked(&content[2..]);
        Ok(KeyPair { kind, key: key.map_err(|_| "it is not a key")? })
    }

    /// Returns the public key, encoded.
    pub(crate) fn public_key(&self) -> String {
        let mut bytes = vec![self.kind];
        bytes.extend_from_slice(self.key.public_key().as_ref());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        BASE32_NOPAD.encode(&bytes)
    }

    /// Returns the signature of a text, encoded.
    pub(crate) fn sign(&self, text: &[u8]) -> String {
        BASE64URL_NOPAD.encode(self.key.sign(text).as_ref())
    }
}

/// CRC-16/XMODEM.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| {
            if sum & 0x8000 == 0 { sum << 1 } else { sum << 1 ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::KeyPair;

    #[test]
    fn a_key_of_a_user() {
        let pair = KeyPair::from_seed("SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY");
        let public = pair.unwrap().public_key();
        assert_eq!(public, "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4");
    }

    /// The key and the signature are those of another implementation.
    #[test]
    fn a_signature() {
        let pair = KeyPair::from_seed("SAAPN4W3EG6KCJGUQTKTJ5GSB5NHK5CHAJL4DBGFUM3HHROI4XUEP4OBK4");
        let signature = pair.unwrap().sign(b"fwD9iyDvqxpcj3ii");
        assert_eq!(
            signature,
            "HuHkn4SHFW1ibjQzmqyNw8KUZDWB0bKciDbK7YmNyqyyvC3k4s0AqimAz6jMt0xhLqGAOyj30UaUol2xMVpsBQ"
        );
    }

    #[test]
    fn malformed_seeds() {
        let seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
        let public = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";
        for bad in ["", "SU", "\u{e9}", public, &seed[..57], &seed.replace('V', "W")] {
            assert!(KeyPair::from_seed(bad).is_err(), "{bad}");
        }
    }
}
