package chainbudget

import "github.com/chainbudget/chainbudget-go/internal/edges"

// Edge is what the SDK has learned about one dependency as used by one inbound operation.
type Edge struct {
	// Operation is the route's pattern or the method's name, Dependency what it calls.
	Operation, Dependency string
	// Class is fail_close (its failure fails the operation), fail_open (the operation answers without it), or unknown.
	Class string
	// Requests counts those in which the dependency was called, Alone those that failed although it had not.
	Requests, Alone int64
	// Failed is the weight of the dependency's last failures, at most 32; Both is how much of it failed the operation too.
	Failed, Both float64
}

// Edges returns what has been learned so far, by operation and dependency. Whether it decides claims is the catalog's to
// say (chain.learn).
func (s *SDK) Edges() []Edge {
	if !s.engine().Usable() {
		return nil
	}
	var list []Edge
	for _, o := range s.engine().Edges().Memory().Operations {
		for _, e := range o.Edges {
			list = append(list, Edge{
				Operation: o.Name, Dependency: e.Dependency, Class: e.Class().String(),
				Requests: e.Requests, Alone: e.Alone, Failed: e.Failed, Both: e.Both,
			})
		}
	}
	return list
}

// KeepEdges keeps what the SDK learns about who causes whose failures in a file: read now, written every minute and by
// [SDK.Close], each time as a whole. A file that does not exist yet is empty; a folder that does not exist is an error,
// and the file is written once it is made. A file that is corrupt or of another version is an error, and the SDK knows
// nothing of it; it is overwritten only once something was learned. A second file, and any after Close, is an error.
func (s *SDK) KeepEdges(path string) error {
	if !s.engine().Usable() {
		return errNoSDK
	}
	return s.engine().KeepEdges(path)
}

// LearnFrom adds what other instances have saved with [SDK.KeepEdges] to what this SDK knows, as if it had seen their
// requests too: to start from a file that is shipped with the catalog, or to make that file from several instances'. If
// any of the files cannot be read, or does not exist, nothing is added and the error names each.
func (s *SDK) LearnFrom(files ...string) error {
	if !s.engine().Usable() {
		return errNoSDK
	}
	memories, err := edges.LoadAll(files...)
	if err != nil {
		return err
	}
	s.engine().Edges().Remember(edges.Merge(memories...))
	return nil
}
