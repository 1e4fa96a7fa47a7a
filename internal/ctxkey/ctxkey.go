package ctxkey

// Inbound is the key of the *engine.Inbound of the request or own chain that a context belongs to.
type Inbound struct{}

// Tracker is the key of the *ownership.Tracker of that request.
type Tracker struct{}

// Call is the key of the *engine.Call whose attempt a context belongs to.
type Call struct{}

// Attempt is the key of the *engine.Attempt that a context is or was made from.
type Attempt struct{}
