//! The addresses of the functions in which initializers run, from the symbol table of the file that
//! this library is linked into.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::slice;

use super::Kind;
use super::elf::{self, Function, position};
use crate::base::simulated;

/// One of these occurs in the name of each function that is wanted.
const WORDS: [&[u8]; 4] =
    [b"get_or_init_slow", b"4Once4call", b"10get_or_try", b"initialize_or_wait"];

/// Parts of the names that occur in this order. They are the same in both manglings of rustc, which
/// differ in what lies between the parts.
const NAMES: [(&[&[u8]], Kind); 4] = [
    (&[b"3std3sys12thread_local6native4lazy", b"16get_or_init_slow"], Kind::ThreadLocal),
    (&[b"12thread_local", b"ThreadLocal", b"10get_or_try"], Kind::ThreadLocal),
    (&[b"3std3sys4sync4once", b"4Once4call"], Kind::Once),
    (&[b"9once_cell3imp18initialize_or_wait"], Kind::Once),
];

/// The functions in which initializers run.
#[derive(Debug)]
pub(super) struct Table {
    /// In ascending order.
    functions: Vec<Function<Kind>>,
    /// The first address of all functions.
    pub(super) first: usize,
    /// The number of addresses from the first one to the end of the last function.
    pub(super) length: usize,
    /// A bit for each 16 addresses from the first one on: whether a function has one of them.
    pub(super) map: Vec<u64>,
}

impl Table {
    /// Reads the table.
    pub(super) fn read() -> io::Result<Table> {
        // The file is one of the machine, also on the thread of a simulation.
        simulated::aside(Table::read_file)
    }

    fn read_file() -> io::Result<Table> {
        let object = own_object().ok_or_else(|| io::Error::other("the loader does not know it"))?;
        let path = object.path.as_deref().unwrap_or(b"/proc/self/exe");
        let mut file = File::open(OsStr::from_bytes(path))?;
        // A file that was replaced after it was loaded would tell wrong addresses.
        if elf::program_headers(&mut file)? != object.headers {
            return Err(io::Error::other("its file has changed"));
        }
        let mut functions = elf::functions(&mut file, &WORDS, kind_of)?;
        for function in &mut functions {
            function.start = function.start.wrapping_add(object.bias);
            function.end = function.end.wrapping_add(object.bias);
        }
        functions.sort_unstable_by_key(|function| function.start);
        Ok(Table::of(functions))
    }

    fn of(functions: Vec<Function<Kind>>) -> Table {
        let first = functions.first().map_or(0, |function| function.start);
        let length = functions.last().map_or(0, |function| function.end - first);
        let mut map = vec![0; length / (16 * 64) + 1];
        for function in &functions {
            for granule in (function.start - first) / 16..=(function.end - first) / 16 {
                if let Some(bits) = map.get_mut(granule / 64) {
                    *bits |= 1 << (granule % 64);
                }
            }
        }
        Table { functions, first, length, map }
    }

    /// Returns the kind of the function that a call lies in.
    pub(super) fn kind_of(&self, call: usize) -> Option<Kind> {
        let after = self.functions.partition_point(|function| function.start <= call);
        let function = self.functions[..after].last()?;
        (call < function.end).then_some(function.kind)
    }
}

fn kind_of(name: &[u8]) -> Option<Kind> {
    let matches = |parts: &[&[u8]]| {
        let mut rest = name;
        parts.iter().all(|part| match position(rest, part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    };
    NAMES.iter().find(|(parts, _)| matches(parts)).map(|&(_, kind)| kind)
}

/// A loaded file.
struct Object {
    /// `None` for the program itself.
    path: Option<Vec<u8>>,
    /// What is added to the addresses in the file.
    bias: usize,
    headers: Vec<u8>,
}

/// Returns the file that this function was loaded from: the program, or a shared library.
fn own_object() -> Option<Object> {
    let mut found = None;
    // SAFETY: the visitor gets this value, and nothing else uses it until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes a record that is valid during this call.
    let info = unsafe { &*info };
    // SAFETY: the loader describes the headers of a loaded file, which stay in memory.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let bias = usize::try_from(info.dlpi_addr).unwrap_or(0);
    let own = (own_object as fn() -> Option<Object>) as usize;
    let contains = |header: &libc::Elf64_Phdr| {
        let start = bias.wrapping_add(usize::try_from(header.p_vaddr).unwrap_or(0));
        header.p_type == libc::PT_LOAD && (own.wrapping_sub(start) as u64) < header.p_memsz
    };
    if !headers.iter().any(contains) {
        return 0;
    }
    // SAFETY: the loader's names end with a NUL.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    let (start, length) = (headers.as_ptr().cast::<u8>(), size_of_val(headers));
    // SAFETY: these are the bytes of the headers, which have no padding.
    let headers = unsafe { slice::from_raw_parts(start, length) }.to_vec();
    let path = (!path.is_empty()).then(|| path.to_vec());
    // SAFETY: this is the value that `own_object` has passed.
    let found = unsafe { &mut *found.cast::<Option<Object>>() };
    *found = Some(Object { path, bias, headers });
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_manglings_are_known() {
        let cases = [
            (
                "_RINvMs0_NtNtNtNtCsjr_3std3sys12thread_local6native4lazyINtB6_7StorageyzE16get_or_init_slowE",
                Some(Kind::ThreadLocal),
            ),
            (
                "_ZN3std3sys12thread_local6native4lazy20Storage$LT$T$C$D$GT$16get_or_init_slow17h0E",
                Some(Kind::ThreadLocal),
            ),
            ("_ZN12thread_local20ThreadLocal$LT$T$GT$10get_or_try17h0E", Some(Kind::ThreadLocal)),
            (
                "_RINvMs_Csx_12thread_localINtB5_11ThreadLocalmE10get_or_tryE",
                Some(Kind::ThreadLocal),
            ),
            ("_RNvMs0_NtNtNtNtCsj_3std3sys4sync4once5futexNtB5_4Once4call", Some(Kind::Once)),
            ("_ZN3std3sys4sync4once5futex4Once4call17h0E", Some(Kind::Once)),
            ("_ZN9once_cell3imp18initialize_or_wait17h0E", Some(Kind::Once)),
            ("_ZN7program16get_or_init_slow17h0E", None),
            ("_ZN7program4Once4call17h0E", None),
        ];
        for (name, kind) in cases {
            assert_eq!(kind_of(name.as_bytes()), kind, "{name}");
        }
    }

    /// The test program has std's own initializers, and knows where they are.
    #[test]
    fn the_programs_own_table_is_read() {
        let table = Table::read().unwrap();
        for kind in [Kind::ThreadLocal, Kind::Once] {
            assert!(table.functions.iter().any(|function| function.kind == kind), "{kind:?}");
        }
        let first = table.functions[0];
        assert_eq!(table.kind_of(first.start), Some(first.kind));
        assert_eq!(table.kind_of(first.start - 1), None);
    }
}
