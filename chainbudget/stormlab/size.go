package stormlab

// Expected returns how many requests come from outside in one variant, and how many calls they come to, if nothing fails. s must be
// valid.
func (s *Scenario) Expected() (requests, calls float64) {
	visits := s.visitsOf()
	for i := range s.Traffic {
		t := &s.Traffic[i]
		during := (s.until(t.Until) - t.From).Seconds()
		n := t.Rate * during
		if t.Clients > 0 {
			n = float64(t.Clients) * during / t.Every.Seconds()
		}
		requests += n
		for k := range s.Services {
			if s.Services[k].Name != t.To {
				continue
			}
			for _, each := range visits[k] {
				calls += n * each
			}
			calls -= n // the request itself
		}
	}
	return requests, calls
}
