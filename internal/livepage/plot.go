package livepage

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// plot is one picture of two kinds of rates over the last minutes.
type plot struct {
	ID, Title string
	Label     string // the same in words
	Top       string // the highest value of the scale
	From      string // how long ago it begins
	Of        string // whose
	Empty     bool
	Lines     []line
}

// line is one kind of rates.
type line struct {
	Class, Name     string
	Points          string // of an SVG polyline
	Now, Mean, Peak string
}

// width and height of a plot in its own units; the page stretches it.
const (
	plotWidth  = points - 1
	plotHeight = 100
)

// plots draws the rates of one dependency, or of all. Retries are far fewer than attempts, so they have a scale of their own.
func plots(id, of string, s Series, w window) []plot {
	return []plot{
		draw(id+"-attempts", of, "Attempts and failures", w, kind{"attempts", s.Attempts}, kind{"failures", s.Failures}),
		draw(id+"-retries", of, "Retries and denials", w, kind{"retries", s.Retries}, kind{"denials", s.Denials}),
	}
}

type kind struct {
	name   string
	counts []int64
}

func draw(id, of, title string, w window, kinds ...kind) plot {
	p := plot{ID: id, Of: of, Title: title, From: w.name, Empty: true}
	var highest int64
	for _, k := range kinds {
		if len(k.counts) > 0 {
			p.Empty = false
			highest = max(highest, slices.Max(k.counts))
		}
	}
	perSecond := func(n float64) float64 { return n / float64(w.step) }
	top := ceiling(perSecond(float64(highest)))
	p.Top = short(top) + "/s"
	words := []string{fmt.Sprintf("%s of %s per second, last %s", title, of, w.name)}
	for _, k := range kinds {
		l := line{Class: k.name, Name: k.name, Now: "–", Mean: "–", Peak: "–"}
		if n := len(k.counts); n > 0 {
			var sum int64
			var b strings.Builder
			for i, c := range k.counts {
				sum += c
				if i > 0 {
					b.WriteByte(' ')
				}
				x := plotWidth - (n - 1 - i)
				y := plotHeight * (1 - perSecond(float64(c))/top)
				b.WriteString(strconv.Itoa(x) + "," + strconv.FormatFloat(y, 'f', 1, 64))
			}
			l.Points = b.String()
			l.Now = short(perSecond(float64(k.counts[n-1])))
			l.Mean = short(perSecond(float64(sum) / float64(n)))
			l.Peak = short(perSecond(float64(slices.Max(k.counts))))
		}
		words = append(words, fmt.Sprintf("%s: now %s, mean %s, peak %s", k.name, l.Now, l.Mean, l.Peak))
		p.Lines = append(p.Lines, l)
	}
	p.Label = strings.Join(words, ". ") + "."
	return p
}

// ceiling is the end of a scale that v fits: few digits, and not much more than v.
func ceiling(v float64) float64 {
	if v <= 1 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}

// short writes a rate with at most one decimal.
func short(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return count(int64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// link is the page itself with another query, under whatever path it is mounted. Empty values are left out.
func link(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] != "" && pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + q.Encode()
}
