/* The protocol of the purse: one chain, from the entry's first call to the last retry of the last hop. README.md says
   which part of the code each step stands for, what was left out and why, and which switches (-D) make which
   configuration. */

#ifndef TOKENS
#define TOKENS 3 /* that the entry mints */
#endif
#ifndef LEVELS
#define LEVELS 2 /* of hops below the entry */
#endif
#ifndef FAN0
#define FAN0 2 /* calls that the entry makes side by side */
#endif
#ifndef FAN1
#define FAN1 2 /* calls that each other hop above the lowest makes side by side */
#endif
#ifndef COPIES
#define COPIES 0 /* requests that something on the way delivers twice */
#endif
#ifndef RESERVE
#define RESERVE 0 /* what the profile keeps back */
#endif
#ifndef CHAINS
#define CHAINS 1 /* one after the other, for simulations */
#endif

#ifdef LOSS /* requests and responses get lost, and a request may provably never leave */
#define loss true
#else
#define loss false
#endif
#ifdef TIMERS /* attempts and waiting end by time or cancellation; without it whatever is lost is noticed */
#define timers true
#else
#define timers false
#endif
#ifdef CRASH /* a hop dies at any moment */
#define crash true
#else
#define crash false
#endif
#ifdef AGAIN /* a return comes twice, or late, also to another attempt of the call */
#define again true
#else
#define again false
#endif
#ifdef CANCEL /* a retry is decided and then does not go out: the caller has gone, or the breaker has opened */
#define cancel true
#else
#define cancel false
#endif
#ifdef EARLY /* a handler answers, and ends, while its calls run, and may keep a token for after its answer */
#define early true
#else
#define early false
#endif
#ifdef BARE /* an attempt may lend nothing: it hedges, or its callee is silent, a leaf, or external */
#define bare true
#else
#define bare false
#endif

#ifdef ENDS /* spin's own watcher, which looks for runs without an end, counts as a process */
#define processes (_nr_pr - 1)
#else
#define processes _nr_pr
#endif
#ifdef DEPTH_FIRST /* the hop that began last runs to its end before anything else goes on */
#define turn (_pid == processes - 1)
#else
#define turn true
#endif

#define most(a, b) ((a) > (b) -> (a) : (b))
#define least(a, b) ((a) < (b) -> (a) : (b))

mtype = { /* where a call is */ idle, flying, unsent, failed, waiting, announced, asleep, backoff, done,
	/* what reserve answers */ reserved, mayComeHome, exhausted, settled,
	/* operations on a purse, for traces */ Receive, Refund, Lend, Settle, Keep, Close, End };

/* The account, one word in the code: every change is one step. */
typedef Purse {
	byte granted, held, lent, kept, out;
#ifdef GONE
	byte gone; /* the three below in one: no rule reads them */
#else
	byte spent, lost, returned;
#endif
	bool minted, closed, ended
}

#ifdef GONE
#define spent gone
#define lost gone
#define returned gone
#define operation(name, argument, other, result) skip
#define answered(result) skip
#else
#define operation(name, argument, other, result) \
	printf("@ %d %e %d %d %d", _pid, name, argument, other, result); balance()
#define answered(result) \
	printf("@ %d Reserve 0 0 %e", _pid, result); balance()
#define balance() \
	printf(" = %d %d %d %d %d %d %d\n", p.granted, p.held, p.lent, p.spent, p.lost, p.returned, p.closed)
#endif

typedef Call {
	mtype at;
	byte attempts; /* the latest one's number, which serves as its nonce: only attempts of one call are ever mixed up */
	byte lease;
	bool watches;  /* it has announced itself, and nobody has told it of a change since */
#ifdef WAKE
	bool notify    /* it has changed the account, and told nobody yet */
#endif
#ifdef BUG_COPY
	byte copied
#endif
#ifdef BUG_RACE
	bool looked
#endif
}

#ifdef BUG_COPY
#define carried(i) c[i].copied
#else
#define carried(i) c[i].lease
#endif

/* An answer: its nonce, the tokens that come back, the retries made. */
#define answer [1] of { byte, byte, byte }
#define no_return 255

byte retries;    /* that went out, of all hops */
byte reached[LEVELS + 1]; /* attempts that reached a service of one path, by its level; all paths are alike */
byte copies;     /* requests delivered twice so far */
bool seen[COPIES + 1]; /* of those, that the instance remembers the nonce */

/* Used within one d_step only: a search that goes back does not restore them. */
hidden mtype r;
hidden byte n, stay, home, used, nonce, back, made;

#ifdef WAKE
#define tell_later(flag) flag = true
#define told(flag) (!flag)
#else
#define tell_later(flag) wake()
#define told(flag) true
#endif

inline wake() {
	c[0].watches = false;
	c[1].watches = false
}

/* I3, and what else must hold after each change. A byte below 0 is one far above what was granted. */
inline adds_up() {
#ifdef GONE
	assert(p.held + p.lent + p.gone == p.granted);
	assert(p.held <= p.granted && p.lent <= p.granted && p.gone <= p.granted);
#else
	assert(p.held + p.lent + p.spent + p.lost + p.returned == p.granted);
	assert(p.held <= p.granted && p.lent <= p.granted && p.spent <= p.granted && p.lost <= p.granted && p.returned <= p.granted);
#endif
	assert(p.lent == c[0].lease + c[1].lease);
	assert(p.out == (c[0].lease > 0) + (c[1].lease > 0));
	assert(!p.closed || p.kept == p.held)
}

inline reserve() {
	if
	:: p.ended || p.closed && p.held == 0 -> r = settled
	:: else ->
		if
#ifdef BUG_RACE
		:: true ->
#else
		:: p.held > 0 ->
#endif
			p.held--;
			p.spent++;
			p.kept = (p.closed -> p.kept - 1 : p.kept);
			r = reserved
		:: p.held == 0 && p.out > 0 -> r = mayComeHome
#ifdef BUG_MINT
		:: p.held == 0 && p.out == 0 && p.minted -> r = reserved
#endif
		:: else -> r = exhausted
		fi
	fi;
	answered(r);
	adds_up()
}

inline refund(i) {
	p.spent--;
	if
	:: p.closed -> p.lost++
	:: else -> p.held++
	fi;
	tell_later(c[i].notify);
	operation(Refund, 0, 0, 0);
	adds_up()
}

inline lend(i) {
	n = 0;
	if
	:: p.closed || p.held == 0
	:: else ->
		stay = most(p.kept, RESERVE);
		stay = (p.minted && (p.held >= 2 || p.lent > 0) -> most(stay, 1) : stay);
		n = (p.held > stay -> p.held - stay : 0)
	fi;
#ifdef BUG_COPY
	c[i].copied = n;
#else
	p.held = p.held - n;
	p.lent = p.lent + n;
	p.out = (n > 0 -> p.out + 1 : p.out);
	c[i].lease = n;
#endif
	operation(Lend, i, RESERVE, n);
	adds_up()
}

/* A lease has the number of its call. */
inline settle(i, comes_back, retries_made) {
	n = c[i].lease;
#ifndef BUG_TWICE
	c[i].lease = 0;
#endif
#ifndef GONE
	below = (level > 0 -> least(below + retries_made, TOKENS) : 0); /* whoever reads it cannot tell more from TOKENS */
#endif
	if
	:: n == 0
	:: else ->
		home = least(comes_back, n);
		used = least(retries_made, n - home);
		p.lent = p.lent - n;
		p.out--;
		p.spent = p.spent + used;
		p.lost = p.lost + (n - home - used);
		if
		:: p.closed ->
			p.lost = p.lost + home;
#ifdef BUG_LATE
			p.held = p.held + home
#endif
		:: else -> p.held = p.held + home
		fi;
		tell_later(c[i].notify)
	fi;
	operation(Settle, i, comes_back, retries_made);
	adds_up()
}

inline close() {
#ifdef BUG_PROMISE
	p.held = p.held + p.lent;
	p.lent = 0;
	p.out = 0;
	c[0].lease = 0;
	c[1].lease = 0;
#endif
	p.kept = least(p.kept, p.held);
	gives = p.held - p.kept;
	p.returned = p.returned + gives;
	p.held = p.kept;
	p.closed = true;
	tell_later(tell);
	operation(Close, 0, 0, gives);
	adds_up()
}

inline end() {
	p.lost = p.lost + p.held;
	p.held = 0;
	p.kept = 0;
	p.closed = true;
	p.ended = true;
	tell_later(tell);
	operation(End, 0, 0, 0);
	adds_up()
}

/* The attempt has ended, and whoever waits for it notices: a reset, or an answer without a return of ours. */
inline reset(to, number) {
	if
	:: nfull(to) -> to!number, no_return, 0
	:: full(to)
	fi
}

/* An attempt goes out: Call.Admit has counted it, Call.Lend fills its lease. */
inline send(i) {
	if
	:: d_step { admit(i); lend(i) }
	:: bare -> d_step { admit(i) }
	fi;
	if
	:: run Hop(level + 1, 2 * place + 1 + i, carried(i), c[i].attempts, 0, answers[i])
	:: copies < COPIES ->
		copies++;
		run Hop(level + 1, 2 * place + 1 + i, carried(i), c[i].attempts, copies, answers[i]);
		run Hop(level + 1, 2 * place + 1 + i, carried(i), c[i].attempts, copies, answers[i])
	:: loss && timers
	:: loss -> reset(answers[i], c[i].attempts)
	:: loss -> c[i].at = unsent
	fi
}

inline admit(i) {
	c[i].attempts++;
	c[i].at = flying;
	if
	:: c[i].attempts > 1 ->
		retries++;
		assert(retries <= TOKENS); /* I1 */
#ifdef NEVER_RETRIES
		assert(retries < TOKENS);
#endif
#ifndef GONE
		own = (level > 0 -> own + 1 : 0)
#endif
	:: else
	fi
}

/* The attempt is over. It succeeded, or some gate refuses that asks for no token, or the decision goes on. */
inline judge(i) {
	if
	:: c[i].at == failed -> finish(i)
	:: skip
	fi
}

inline finish(i) {
	c[i].at = done;
	if
	:: again
	:: !again && nempty(answers[i]) -> answers[i]?_, _, _; c[i].attempts = 0 /* nobody asks any more */
	:: !again && empty(answers[i]) -> c[i].attempts = 0
	fi
}

/* An answer to an earlier attempt goes to a connection that was given up, unless a return may come again. */
inline arrive(i) {
	if
	:: again || nonce == c[i].attempts -> read(i); c[i].at = failed
	:: else
	fi
}

inline read(i) {
	if
#ifdef BUG_NONCE
	:: back != no_return -> settle(i, back, made)
#else
	:: nonce == c[i].attempts && back != no_return -> settle(i, back, made)
#endif
	:: else -> settle(i, 0, 0)
	fi
}

inline decide(i, otherwise) {
	d_step {
		reserve();
		if
		:: r == reserved -> c[i].at = backoff
		:: r == mayComeHome -> c[i].at = otherwise
		:: else -> c[i].at = done
		fi
	};
	if
	:: c[i].at == done -> finish(i)
	:: c[i].at != done
	fi
}

#define rests(i) (c[i].at != idle && c[i].at != flying && c[i].at != unsent)

#ifdef BUG_LOST
#define gone_with(i) c[i].lease
#else
#define gone_with(i) 0
#endif

#ifdef BUG_RACE
#define DECIDE(i) \
	:: atomic { c[i].at == failed && !c[i].looked && p.held > 0 -> c[i].looked = true } \
	:: atomic { c[i].at == failed && c[i].looked -> c[i].looked = false; decide(i, waiting) } \
	:: atomic { c[i].at == failed && !c[i].looked && p.held == 0 -> finish(i) }
#else
#define DECIDE(i) :: atomic { told(c[i].notify) && c[i].at == failed -> decide(i, waiting) }
#endif

#ifdef WAKE
#define NOTIFY(i) :: atomic { c[i].notify -> c[i].notify = false; wake() }
#else
#define NOTIFY(i)
#endif

#define CALL(i) \
	NOTIFY(i) \
	:: atomic { told(c[i].notify) && c[i].at == idle -> send(i) } \
	:: atomic { c[i].at == flying && nempty(answers[i]) -> d_step { answers[i]?nonce, back, made; arrive(i) }; judge(i) } \
	:: atomic { again && c[i].at == flying && nempty(answers[i]) -> d_step { answers[i]?<nonce, back, made>; arrive(i) }; judge(i) } \
	:: atomic { again && rests(i) && nempty(answers[i]) -> d_step { answers[i]?nonce, back, made; read(i) } } \
	:: atomic { timers && c[i].at == flying -> d_step { back = gone_with(i); settle(i, back, 0); c[i].at = failed }; judge(i) } \
	:: atomic { c[i].at == unsent -> d_step { back = c[i].lease; settle(i, back, 0); c[i].at = failed }; judge(i) } \
	DECIDE(i) \
	WAIT(i) \
	:: atomic { c[i].at == asleep && !c[i].watches -> c[i].at = waiting } \
	:: atomic { timers && c[i].at == asleep -> finish(i) } \
	:: atomic { told(c[i].notify) && c[i].at == backoff -> send(i) } \
	:: atomic { cancel && told(c[i].notify) && c[i].at == backoff -> d_step { refund(i) }; finish(i) }

#ifdef BUG_WAKE
#define WAIT(i) \
	:: atomic { c[i].at == waiting -> decide(i, announced) } \
	:: atomic { c[i].at == announced -> c[i].watches = true; c[i].at = asleep }
#else
#define WAIT(i) \
	:: atomic { c[i].at == waiting -> c[i].watches = true; c[i].at = announced } \
	:: atomic { c[i].at == announced -> decide(i, asleep) }
#endif

#define calls_over (c[0].at == done && c[1].at == done && told(c[0].notify) && told(c[1].notify))

/* One inbound request: its purse, its calls, its handler. */
proctype Hop(byte level; byte place; byte grant; byte number; byte copy; chan up) provided (turn) {
	Purse p;
	Call c[2];
	chan answers[2] = answer;
#ifndef GONE
	byte own, below; /* retries that went out here, and that returns reported */
#endif
#ifdef WAKE
	bool tell; /* the account was closed, and nobody was told yet */
#endif
	bool keeps; /* Keep was asked */
	byte gives; /* what the return says, while it is on its way out */

	d_step {
		n = grant;
		if
#ifndef BUG_COPIES
		:: copy > 0 && grant > 0 && seen[copy] -> n = 0
#endif
		:: else -> seen[copy] = (copy > 0)
		fi;
		p.granted = n;
		p.held = n;
		p.minted = (level == 0);
		c[0].at = (level < LEVELS -> idle : done);
		c[1].at = (level < LEVELS && (level == 0 -> FAN0 : FAN1) > 1 -> idle : done);
		if
		:: place + 1 == (1 << level) ->
			reached[level]++;
			assert(reached[level] <= 1 + TOKENS + copies); /* I2; what something on the way repeats comes on top */
#ifdef NEVER_REACHED
			assert(reached[LEVELS] < 1 + TOKENS);
#endif
		:: else
		fi;
		operation(Receive, level, copy, grant);
		grant = 0 /* nobody asks any more */
	};
	do
	CALL(0)
	CALL(1)
#ifdef WAKE
	:: atomic { tell -> tell = false; wake() }
#endif
	:: atomic { early && level > 0 && !keeps && !p.closed ->
		d_step {
			keeps = true;
			p.kept = least(1, p.held);
			operation(Keep, 1, 0, p.kept)
		} }
	:: atomic { level > 0 && !p.closed && (early || calls_over) ->
		d_step { close() };
		if
#ifdef GONE
		:: nfull(up) -> up!number, gives, 0
#else
		:: nfull(up) -> up!number, gives, least(own + below, TOKENS)
#endif
		:: full(up)
		:: loss && timers
		:: loss -> reset(up, number)
		fi;
		gives = 0 }
	:: atomic { !p.ended && told(tell) && (level == 0 || p.closed) && (early || calls_over) -> d_step { end() } }
	:: p.ended && told(tell) && calls_over -> break
	:: crash && (timers || level == 0) -> break
	:: atomic { crash && level > 0 -> reset(up, number); break }
	od
}

init {
	chan nobody = answer;
	byte chain;
	do
	:: chain < CHAINS ->
		atomic {
			chain++;
			retries = 0;
			for (n : 0 .. LEVELS) { reached[n] = 0 }
			for (n : 0 .. COPIES) { seen[n] = false }
			n = 0;
			copies = 0;
			run Hop(0, 0, TOKENS, 0, 0, nobody)
		};
		processes == 1;
#ifdef OUTCOMES
		c_code { printf("outcome %d %d %d %d\n", now.retries, now.reached[1], now.reached[2], now.copies); };
#endif
	:: else -> break
	od
}
