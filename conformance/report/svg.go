package report

import (
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"

	"quintet.dev/quintet/conformance/score"
)

// Geometry of the sequence diagram, in pixels.
const (
	timeColumn = 84
	laneWidth  = 104
	rowHeight  = 24
	headHeight = 56
	labelWidth = 590
	labelRunes = 90
)

// apiLane is drawn even when it wrote nothing: every arrow ends there.
const apiLane = "kube-apiserver"

// sequence draws a timeline: a lane per component, a row per entry with its real time, an arrow from the writer to the
// API server. Times are printed, not drawn to scale: entries come in bursts.
func sequence(s *score.Timeline) template.HTML {
	lanes := lanesOf(s)
	width := timeColumn + laneWidth*len(lanes) + labelWidth
	height := headHeight + rowHeight*len(s.Entries) + 12
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg class="seq" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="sequence diagram">`, width,
		height, width, height)
	for i, lane := range lanes {
		x := laneX(i)
		y := 16 + 16*(i%2) // names are wider than lanes, so neighbours stand on different lines
		fmt.Fprintf(&b, `<line class="life" x1="%d" y1="%d" x2="%d" y2="%d"/>`, x, y+8, x, height-6)
		fmt.Fprintf(&b, `<text class="lane" x="%d" y="%d" text-anchor="middle">%s</text>`, x, y,
			html.EscapeString(lane))
	}
	api := laneX(slices.Index(lanes, apiLane))
	for i, n := range s.Entries {
		drawEntry(&b, n, headHeight+rowHeight*i, laneX(slices.Index(lanes, n.Actor)), api,
			timeColumn+laneWidth*len(lanes))
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) //nolint:gosec // every text in it went through EscapeString
}

// lanesOf orders the components in the order in which they usually write, unknown ones last.
func lanesOf(s *score.Timeline) []string {
	var lanes []string
	for _, known := range []string{"client", apiLane, "kube-controller-manager", "kube-scheduler", "kubelet"} {
		if known == apiLane || slices.Contains(s.Actors, known) {
			lanes = append(lanes, known)
		}
	}
	for _, component := range s.Actors {
		if !slices.Contains(lanes, component) {
			lanes = append(lanes, component)
		}
	}
	return lanes
}

func laneX(i int) int { return timeColumn + laneWidth*i + laneWidth/2 }

func drawEntry(b *strings.Builder, n score.Entry, y, from, to, labelX int) {
	class := "note"
	if n.Milestone != "" {
		class += " mark " + string(n.Milestone)
	}
	fmt.Fprintf(b, `<g class="%s"><title>%s</title>`, class, html.EscapeString(n.Object+": "+n.What))
	fmt.Fprintf(b, `<text class="at" x="%d" y="%d" text-anchor="end">%s</text>`, timeColumn-10, y+4, millis(n.At))
	if from != to {
		head := 7
		if to < from {
			head = -7
		}
		fmt.Fprintf(b, `<line class="arrow" x1="%d" y1="%d" x2="%d" y2="%d"/>`, from, y, to-head, y)
		fmt.Fprintf(b, `<path class="head" d="M%d %d l%d -4 v8 z"/>`, to, y, -head)
	}
	fmt.Fprintf(b, `<circle class="dot" cx="%d" cy="%d" r="4"/>`, from, y)
	fmt.Fprintf(b, `<text class="what" x="%d" y="%d"><tspan class="object">%s</tspan> %s</text></g>`,
		labelX, y+4, html.EscapeString(n.Object), html.EscapeString(shorten(n.What, labelRunes-len([]rune(n.Object)))))
}

func millis(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.3f s", ms/1000)
}

func shorten(s string, runes int) string {
	r := []rune(s)
	if len(r) <= runes || runes < 1 {
		return s
	}
	return string(r[:runes-1]) + "…"
}

// step is one milestone of a flow and the time since the one before.
type step struct {
	Mark  score.Milestone
	At    string
	Delta string
}

// milestones lists the first time of each mark, in order of time.
func milestones(s *score.Timeline) []step {
	marks := []score.Milestone{score.Accepted, score.Bound, score.Pulled, score.Started, score.Running}
	type point struct {
		mark score.Milestone
		at   float64
	}
	var points []point
	for _, m := range marks {
		if at, ok := s.First(m); ok {
			points = append(points, point{m, at})
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return int(1000 * (a.at - b.at)) })
	var steps []step
	for i, p := range points {
		st := step{Mark: p.mark, At: millis(p.at)}
		if i > 0 {
			st.Delta = "+" + millis(p.at-points[i-1].at)
		}
		steps = append(steps, st)
	}
	return steps
}
