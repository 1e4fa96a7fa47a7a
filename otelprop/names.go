package otelprop

// The names on the wire, in lower case as gRPC metadata and HTTP/2 spell them.
const (
	// MemberKey is the key of our baggage member. It is case sensitive.
	MemberKey = "chainbudget"
	// BaggageHeader carries baggage, ours and everybody else's.
	BaggageHeader = "baggage"
	// RequestHeader carries the request's values from a caller to its direct callee.
	RequestHeader = "chainbudget"
	// ReturnHeader carries the return from a callee to its direct caller: a header in HTTP, a trailer in gRPC.
	ReturnHeader = "chainbudget-return"

	// ErrorDomain and ErrorReason mark the google.rpc.ErrorInfo that carries a return among the details of a gRPC or connect
	// error; the line is in its metadata under ReturnHeader.
	ErrorDomain = "chainbudget"
	ErrorReason = "RETURN"
)

// The same names as the canonical keys of an http.Header, for direct use as map keys.
const (
	HTTPBaggageHeader = "Baggage"
	HTTPRequestHeader = "Chainbudget"
	HTTPReturnHeader  = "Chainbudget-Return"
)

// The limits of the wire. Lengths are in bytes.
const (
	// MaxMember bounds our baggage member: key, "=" and value, without white space around them and without properties.
	MaxMember = 64
	// MaxHeader bounds one request header line, as received.
	MaxHeader = 256
	// MaxReturn bounds one return line, as received.
	MaxReturn = 128
	// MaxHeaderLines is how many request header lines are read. Where there are more, the grant is 0.
	MaxHeaderLines = 8

	// MaxBaggageMembers bounds the members that [MergeBaggage] writes, ours included.
	MaxBaggageMembers = 64
	// MaxBaggageBytes bounds the baggage that is looked at and written: all lines, joined by one comma each.
	MaxBaggageBytes = 8192

	// MaxTokens is the largest grant, limit and count of returned tokens or of retries.
	MaxTokens = 99
	// MaxHop is the largest hop number; deeper hops say MaxHop.
	MaxHop = 99
	// MaxAttempt is the largest attempt number; later attempts say MaxAttempt.
	MaxAttempt = 99
	// MaxTimeoutMillis is the largest timeout, in milliseconds.
	MaxTimeoutMillis = 600_000

	// MaxEntry bounds the slug of an entry.
	MaxEntry = 24
	// MaxOwner bounds the slug of an owner.
	MaxOwner = 24
	// MaxCaller bounds the slug of a caller.
	MaxCaller = 40
	// MaxProfile bounds the name of a profile.
	MaxProfile = 64
	// DigestLen is the exact length of a profile's digest, in lower-case hexadecimal digits.
	DigestLen = 8
)

// version is the version that is written, with its dot.
const version = "v1."

const (
	maxCore   = len("v1.99.99.99.") + nonceLen + len(".") + MaxEntry
	maxParams = len(";caller=") + MaxCaller + len(";attempt=99") + len(";profile=") + MaxProfile + len("@") + DigestLen +
		len(";timeout=600000")
	maxReturn = len("v1.99.99.c.") + nonceLen + len(".leZ.") + MaxOwner
)

// Every line that can be written fits the limit that its reader keeps, so a writer never has to choose what to leave
// out. A longer field or a new parameter that breaks this does not compile.
const (
	_ = uint(MaxMember - len(MemberKey) - len("=") - maxCore)
	_ = uint(MaxHeader - maxCore - maxParams)
	_ = uint(MaxReturn - maxReturn)
)
