// Package profiles has the catalog: the reviewed file that says how often, how soon and against which limits each
// dependency may be retried, and the named profiles that it chooses from.
//
//	catalog, err := profiles.LoadFile("retry-catalog.yaml")
//	if err != nil {
//		return err // a *profiles.CatalogError lists every problem with its line and its remedy
//	}
//	effective, err := catalog.Resolve("payments", profiles.WritePath)
//
// What holds by default:
//
//  1. Every catalog has the eight built-in profiles, which are themselves a file, builtin.yaml, read by the same loader.
//     Another file may extend them and cannot redefine them.
//  2. A profile that extends nothing starts from [Default] and must say max_attempts; every other key has its default.
//  3. The profile that the catalog pins to a dependency wins over the one named in code.
//  4. Delays are full jitter; no setting turns the jitter off. What a server asks for is a lower bound.
//  5. Without internal_hosts, names of one part, *.svc, *.cluster.local, *.internal, loopback and private addresses are
//     internal.
//
// A file is read strictly: unknown keys, repeated keys, values of another type, numbers out of range, settings that
// contradict each other, anchors, aliases, tags, and bare yes, no, on and off are errors, all listed at once. No value is
// corrected silently. Loading the same values always gives the same [Profile.Digest], however they are spelled.
//
// The package does not retry, sleep, watch files, or know HTTP clients; it imports the standard library and a YAML
// parser. Loaded catalogs are immutable and may be read from any number of goroutines.
package profiles
