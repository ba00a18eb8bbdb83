//! Files with std's API, used in the ways of gears' notes, from which ecru took its sources: open,
//! close, bytes and text in any encoding at the start of the file, each alone or at once with
//! others, and a file that is open while a closure runs.

use ecru::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

fn main() -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("ecru-08-files-{}", std::process::id()));
    let outcome = ecru::run(|| {
        fs::create_dir_all(&folder)?;
        whole_files(&folder)?;
        bytes_at_positions(&folder)?;
        text_in_another_encoding(&folder)?;
        many_at_once(&folder)
    });
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn whole_files(folder: &Path) -> io::Result<()> {
    let path = folder.join("words");
    fs::write(&path, "undyed\ncloth\n")?;
    assert_eq!(fs::read_to_string(&path)?, "undyed\ncloth\n");
    let lines = BufReader::new(File::open(&path)?).lines().collect::<io::Result<Vec<_>>>()?;
    println!("{} lines, the last is {:?}", lines.len(), lines[1]);
    Ok(())
}

fn bytes_at_positions(folder: &Path) -> io::Result<()> {
    // The file is opened with options, and closed at the end of its scope or by `drop`. A `File` is
    // always open, so its type tells.
    let file = File::options().read(true).write(true).create(true).open(folder.join("bytes"))?;
    // A slice plays the part of a buffer's own position.
    let buffer = *b"0123456789";
    assert_eq!(file.write_at(&buffer[4..], 0)?, 6);
    let mut back = [0; 16];
    assert_eq!(file.read_at(&mut back, 0)?, 6);
    assert_eq!(file.read_at(&mut back, 6)?, 0, "the end of the file is 0, and not a wait");
    println!("{:?}", String::from_utf8_lossy(&back[..6]));
    drop(file);

    // The file is open while the closure runs, and is closed on every path out of it.
    let length = with_file(&folder.join("bytes"), |file| Ok(file.metadata()?.len()))?;
    assert_eq!(length, 6);
    Ok(())
}

fn with_file<T>(path: &Path, body: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    body(&mut File::open(path)?)
}

/// Files have bytes. A text in another encoding is converted on the way: UTF-16 by the standard
/// library, and others by the crate `encoding_rs`, as the example `gears` does.
fn text_in_another_encoding(folder: &Path) -> io::Result<()> {
    let path = folder.join("text");
    let text = "écru, 生成り";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    fs::write(&path, &bytes)?;
    let back = fs::read(&path)?;
    let units: Vec<u16> =
        back.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
    let decoded = String::from_utf16(&units).map_err(io::Error::other)?;
    assert_eq!(decoded, text);
    println!("{decoded:?} takes {} bytes in UTF-16", back.len());
    Ok(())
}

/// Where gears has a future, ecru has a task, or an iteration of a parallel loop.
fn many_at_once(folder: &Path) -> io::Result<()> {
    let written = ecru::par::map(0..20_usize, |number| {
        let path = folder.join(format!("part-{number}"));
        fs::write(&path, vec![b'x'; number * 1000])?;
        Ok::<_, io::Error>(fs::read(&path)?.len())
    });
    let written = written.into_iter().collect::<io::Result<Vec<_>>>()?;
    println!("{} bytes in {} files", written.iter().sum::<usize>(), written.len());
    assert_eq!(written.iter().sum::<usize>(), 190_000);
    Ok(())
}
