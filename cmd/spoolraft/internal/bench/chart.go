package bench

import (
	"fmt"
	"math"
	"strings"
)

// chart is a plot that the page draws as SVG.
type chart struct {
	Label          string // for those who cannot see it
	XTitle, YTitle string
	XTicks, YTicks []tick
	Lines          []line
}

// tick is a mark on an axis.
type tick struct {
	At   float64
	Text string
}

// line is a series of points.
type line struct {
	Name   string
	Class  string
	Points string // of an SVG polyline
}

// The plot within the drawing, which has room for the ticks around it.
const (
	chartLeft, chartRight = 64.0, 880.0
	chartTop, chartBottom = 12.0, 250.0
)

// scale maps values to a side of the plot.
type scale struct {
	least, most float64
	from, to    float64
	log         bool
}

func (s scale) at(v float64) float64 {
	least, most := s.least, s.most
	if s.log {
		v, least, most = math.Log10(max(v, least)), math.Log10(least), math.Log10(most)
	}
	return s.from + (v-least)/(most-least)*(s.to-s.from)
}

// rounds are round numbers, evenly spread from 0 to most or just beyond.
func rounds(most float64) (values []float64) {
	if most <= 0 {
		most = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step < 4 {
		step /= 2
	}
	for i := range int(math.Ceil(most/step)) + 1 {
		values = append(values, float64(i)*step)
	}
	return values
}

// linear is a scale from 0 to a round number.
func linear(most, from, to float64) (scale, []tick) {
	values := rounds(most)
	s := scale{least: 0, most: values[len(values)-1], from: from, to: to}
	return s, ticksAt(s, values)
}

// exact is a scale from 0 to most.
func exact(most, from, to float64) (scale, []tick) {
	s := scale{least: 0, most: most, from: from, to: to}
	values := rounds(most)
	if values[len(values)-1] > most {
		values = values[:len(values)-1]
	}
	return s, ticksAt(s, values)
}

func ticksAt(s scale, values []float64) (ticks []tick) {
	for _, v := range values {
		ticks = append(ticks, tick{s.at(v), plain(v)})
	}
	return ticks
}

// logarithmic is a scale over decades, with ticks at 1, 2 and 5 of each.
func logarithmic(least, most, from, to float64) (scale, []tick) {
	least, most = max(least, 0.001), max(most, 0.001)
	s := scale{least: math.Pow(10, math.Floor(math.Log10(least))), from: from, to: to, log: true}
	for s.most = s.least * 10; s.most < most; s.most *= 10 {
	}
	var values []float64
	for decade := s.least; decade <= s.most*1.0001; decade *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := decade * m; v <= s.most*1.0001 {
				values = append(values, v)
			}
		}
	}
	return s, ticksAt(s, values)
}

// plain writes a number as short as it reads well.
func plain(v float64) string {
	switch {
	case v >= 1000:
		return thousands(int64(math.Round(v)))
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	default:
		return strings.TrimRight(fmt.Sprintf("%.3f", v), "0")
	}
}

func thousands(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func polyline(name, class string, x, y scale, n int, point func(i int) (float64, float64)) line {
	var b strings.Builder
	for i := range n {
		px, py := point(i)
		fmt.Fprintf(&b, "%.1f,%.1f ", x.at(px), y.at(py))
	}
	return line{name, class, strings.TrimSpace(b.String())}
}

// nines is where a percentile stands on the axis: 90 at 1, 99 at 2 and so on.
func nines(percent float64) float64 { return -math.Log10(1 - percent/100) }

func latencyChart(latencies []Latency) chart {
	least, most, last := math.Inf(1), 0.0, 1.0
	for _, l := range latencies {
		for _, p := range l.curve {
			least, most, last = min(least, p.ms), max(most, p.ms), max(last, nines(p.percent))
		}
	}
	if most == 0 {
		least, most = 1, 1
	}
	x := scale{least: 0, most: last, from: chartLeft, to: chartRight}
	y, ticks := logarithmic(least, most, chartBottom, chartTop)
	c := chart{Label: "Latency by percentile", XTitle: "percentile", YTitle: "latency, ms", YTicks: ticks}
	for _, p := range []float64{0, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 99.9999} {
		if nines(p) <= last {
			c.XTicks = append(c.XTicks, tick{x.at(nines(p)), fmt.Sprint(p)})
		}
	}
	for i, l := range latencies {
		c.Lines = append(c.Lines, polyline(l.Name, fmt.Sprint("s", i), x, y, len(l.curve), func(i int) (float64, float64) {
			return nines(l.curve[i].percent), l.curve[i].ms
		}))
	}
	return c
}

func rateChart(points []Point) chart {
	most, last := 0.0, 1.0
	for _, p := range points {
		most, last = max(most, p.MessagesPerSecond), max(last, p.Second)
	}
	x, xTicks := exact(last, chartLeft, chartRight)
	y, yTicks := linear(most, chartBottom, chartTop)
	return chart{Label: "Messages a second over time", XTitle: "seconds", YTitle: "messages/s", XTicks: xTicks, YTicks: yTicks, Lines: []line{
		polyline("messages a second", "s0", x, y, len(points), func(i int) (float64, float64) { return points[i].Second, points[i].MessagesPerSecond }),
	}}
}

func timeChart(points []Point) chart {
	least, most, last := math.Inf(1), 0.0, 1.0
	for _, p := range points {
		least, most, last = min(least, p.P50Ms), max(most, p.MaxMs), max(last, p.Second)
	}
	if most == 0 {
		least, most = 1, 1
	}
	x, xTicks := exact(last, chartLeft, chartRight)
	y, yTicks := logarithmic(least, most, chartBottom, chartTop)
	series := func(name, class string, of func(Point) float64) line {
		return polyline(name, class, x, y, len(points), func(i int) (float64, float64) { return points[i].Second, of(points[i]) })
	}
	return chart{Label: "Latency over time", XTitle: "seconds", YTitle: "latency, ms", XTicks: xTicks, YTicks: yTicks, Lines: []line{
		series("p50", "s0", func(p Point) float64 { return p.P50Ms }),
		series("p99", "s1", func(p Point) float64 { return p.P99Ms }),
		series("max", "s2", func(p Point) float64 { return p.MaxMs }),
	}}
}
