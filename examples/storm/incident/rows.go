package incident

import "fmt"

// Row is one line of the comparison, as text.
type Row struct{ What, Before, After string }

// Rows compares the two runs.
func (r *Result) Rows() []Row {
	row := func(what string, text func(*Side) string) Row { return Row{what, text(&r.Before), text(&r.After)} }
	count := func(what string, n func(*Side) int64) Row {
		return row(what, func(s *Side) string { return fmt.Sprint(n(s)) })
	}
	services := func(n func(*ServiceCounts) int64) func(*Side) int64 {
		return func(s *Side) (sum int64) {
			for i := range s.Services {
				sum += n(&s.Services[i])
			}
			return sum
		}
	}
	times := func(n float64) string { return fmt.Sprintf("%.2f x", n) }
	return []Row{
		count("payments asked for", services(func(c *ServiceCounts) int64 { return c.Received })),
		count("payments made", services(func(c *ServiceCounts) int64 { return c.OK })),
		row("  of those asked for in the fault", func(s *Side) string { return fmt.Sprintf("%.1f %%", 100*s.Summary.OKFault) }),
		row("  of those asked for after it", func(s *Side) string { return fmt.Sprintf("%.1f %%", 100*s.Summary.OKAfter) }),
		count("requests at the ledger", func(s *Side) int64 { return s.Ledger.Arrivals }),
		count("  of them retries", func(s *Side) int64 { return s.Ledger.Retries }),
		count("  rejected, queue full", func(s *Side) int64 { return s.Ledger.Rejected }),
		count("  writes rejected because of a retry", func(s *Side) int64 { return s.Ledger.RejectedForRetry }),
		count("calls refused by the services' breakers", services(func(c *ServiceCounts) int64 { return c.Refused })),
		row("load in the fault, of the baseline", func(s *Side) string { return times(s.Summary.LoadMean) }),
		row("load in the busiest second", func(s *Side) string { return times(s.Summary.LoadPeak) }),
		row("longest queue", func(s *Side) string { return fmt.Sprint(s.Ledger.QueueMax) }),
		row("p95 healthy", func(s *Side) string { return duration(s.Summary.P95Healthy) }),
		row("p95 in the fault", func(s *Side) string { return duration(s.Summary.P95Fault) }),
		row("p95 from 2 s after it", func(s *Side) string { return duration(s.Summary.P95After) }),
	}
}

// duration writes milliseconds; 0 is none.
func duration(ms float64) string {
	switch {
	case ms == 0:
		return "–"
	case ms < 1000:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
}

// About says what stands behind the numbers of the incident.
func (r *Result) About() string {
	text := fmt.Sprintf("The ledger serves %d requests at once, 20 ms each: 1.25 times the %d payments a second. %d may wait. In the fault a "+
		"request costs ten times as much and half of them fail. The published sizes do not say how many it serves at once; "+
		"with five, at 200 payments a second, a full queue is worth the published 2 s (here %.1f s). The load reaches the "+
		"published 4 times (0.6 x 6 + 0.4 x 1) until Go's breaker has its 18 failures; from then on only Grab is left, at "+
		"0.6 x 6 = 3.6 times at most.",
		r.Workers, r.Rate, queueLimit, fullQueue(r.Workers).Seconds())
	if r.Stalled > stallLimit {
		text += fmt.Sprintf(" This machine was busy with something else: it stopped for up to %.0f ms, so that requests came in bursts. "+
			"The numbers are better on an idle one.", r.Stalled)
	}
	return text
}

// stallLimit is how many milliseconds a user may be late without a word about it: half a tick.
const stallLimit = 125
