//! The plot of all rows, as SVG: one dot for each row and processor on a logarithmic axis.

use super::read::Processor;
use super::table::{Line, Standing, best, name, short, standing};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
/// The axis begins and ends here. The names of the rows are left of it.
const LEFT: f64 = 292.0;
const RIGHT: f64 = 880.0;
/// The first row begins here. The legend and the axis are above it.
const TOP: f64 = 76.0;
const ROW: f64 = 17.0;
/// Colours that differ in brightness, too.
const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#009e73", "#444444"];
const STYLE: &str = "text{font:12px 'DejaVu Sans',Verdana,sans-serif;fill:#24292f}\
                     .name{text-anchor:end}.tick{text-anchor:middle}\
                     .grid{stroke:#d8dee4}.one{stroke:#24292f;stroke-width:1.5}";

/// Returns the plot of the lines that have a peer.
pub(super) fn plot(processors: &[Processor<'_>], lines: &[Line<'_>]) -> String {
    let peers =
        |line: &Line<'_>| line.results.iter().flatten().any(|(row, _)| !row.peers.is_empty());
    let lines: Vec<_> = lines.iter().filter(|line| peers(line)).collect();
    let axis = Axis::of(&lines);
    let bottom = TOP + ROW * lines.len() as f64;
    let height = bottom + 26.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    let mut put = |element: String| writeln!(svg, "{element}").expect("a string takes it");
    for band in (1..lines.len()).step_by(2) {
        let y = TOP + ROW * band as f64;
        put(format!("<rect y=\"{y}\" width=\"{WIDTH}\" height=\"{ROW}\" fill=\"#f4f6f8\"/>"));
    }
    for tick in axis.ticks() {
        let (x, class) = (axis.x(tick), if tick == 1.0 { "one" } else { "grid" });
        put(format!("<path class=\"{class}\" d=\"M{x:.1} {TOP}V{bottom}\"/>"));
        for y in [TOP - 6.0, bottom + 16.0] {
            let label = short(tick).trim_end_matches('0').trim_end_matches('.').to_owned();
            let label = if tick >= 10.0 { short(tick) } else { label };
            put(format!("<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\">{label}</text>"));
        }
    }
    put("<text x=\"12\" y=\"20\">Best peer's cost as a multiple of ecru's: right of 1, ecru is \
         cheaper. A line is the range; a hollow dot is undecided.</text>"
        .into());
    for (place, processor) in processors.iter().enumerate() {
        let (x, colour) = (LEFT + 190.0 * place as f64, COLOURS[place % COLOURS.len()]);
        put(format!("<circle cx=\"{x}\" cy=\"40\" r=\"4\" fill=\"{colour}\"/>"));
        put(format!("<text x=\"{}\" y=\"44\">{}</text>", x + 10.0, name(processor)));
    }
    for (index, line) in lines.iter().enumerate() {
        let middle = TOP + ROW * (index as f64 + 0.5);
        let (x, y) = (LEFT - 12.0, middle + 4.0);
        put(format!("<text class=\"name\" x=\"{x}\" y=\"{y}\">{}</text>", line.name));
        for (place, result) in line.results.iter().enumerate() {
            let Some((row, _)) = result else { continue };
            let Some(peer) = best(row) else { continue };
            // Dots of one row are below each other, so that none hides another.
            let y = middle + 13.0 * ((place as f64 + 0.5) / processors.len() as f64 - 0.5);
            let [low, at, high] = [peer.low, peer.median, peer.high].map(|value| axis.x(value));
            let colour = COLOURS[place % COLOURS.len()];
            let decided = standing(row) != Some(Standing::Undecided);
            let fill = if decided { colour } else { "#fff" };
            put(format!(
                "<path stroke=\"{colour}\" d=\"M{low:.1} {y}H{high:.1}\"/>\
                 <circle cx=\"{at:.1}\" cy=\"{y}\" r=\"3\" stroke=\"{colour}\" fill=\"{fill}\"/>"
            ));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// A logarithmic axis between two ticks.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// Returns the shortest axis that has every median. Longer ranges are cut at its ends.
    fn of(lines: &[&Line<'_>]) -> Axis {
        let rows = lines.iter().flat_map(|line| line.results.iter().flatten());
        let medians = || rows.clone().filter_map(|(row, _)| Some(best(row)?.median));
        let (least, most) = (medians().fold(1.0, f64::min), medians().fold(1.0, f64::max));
        let low = steps().filter(|step| *step <= least).last().unwrap_or(least);
        Axis { low, high: steps().find(|step| *step >= most).unwrap_or(most) }
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        steps().filter(|step| (self.low..=self.high).contains(step))
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }
}

/// Returns 1, 2 and 5 times the powers of ten.
fn steps() -> impl Iterator<Item = f64> {
    let powers = [1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];
    powers.into_iter().flat_map(|power| [power, 2.0 * power, 5.0 * power])
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::second;
    use super::super::read::{newest, runs};
    use super::super::table::lines;
    use super::*;

    #[test]
    fn a_dot_lies_between_the_ends_of_its_range() {
        let (runs, _) = runs(&[second("a/x.json", "1", |_| {})]);
        let processors = newest(&runs);
        let svg = plot(&processors, &lines(&processors, "yield = yield, 2 tasks").unwrap());
        // The axis reaches from 1 to 5, and the range from 3.5 to 4.5.
        let (at, x) = (svg.find("<circle cx=\"7").unwrap(), |value: f64| {
            LEFT + (RIGHT - LEFT) * value.ln() / 5f64.ln()
        });
        assert!(svg[at..].contains(&format!("cx=\"{:.1}\"", x(4.0))), "{svg}");
        assert!(svg.contains(&format!("M{:.1} ", x(3.5))) && svg.contains(">yield, 2 tasks<"));
    }
}
