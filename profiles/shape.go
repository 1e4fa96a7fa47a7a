package profiles

import (
	"slices"
	"strings"
	"time"
)

// shape is what a value may look like, once for people and once for editors.
type shape struct {
	text   string // such as "1 to 99"
	schema node
}

// node is a part of a JSON Schema. Its keys come out sorted.
type node map[string]any

func whole(r span[int]) shape {
	return shape{r.String(), node{"type": "integer", "minimum": r.min, "maximum": r.max}}
}

// durationPattern is what time.ParseDuration reads, without a sign that no setting could use.
const durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`

// duration is a duration of a range; zero says what 0s stands for.
func duration(r span[time.Duration], zero string) shape {
	text := showDuration(r.min) + " to " + showDuration(r.max)
	if zero != "" {
		text += "; " + zero
	}
	return shape{text, node{"type": "string", "pattern": durationPattern}}
}

// percentPattern is 0% to 100%.
const percentPattern = `^0*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%$`

func share(r span[float64]) shape {
	return shape{r.String(), node{"type": []string{"number", "string"}, "minimum": r.min, "maximum": r.max, "pattern": percentPattern}}
}

func plain(r span[factor]) shape {
	return shape{r.String(), node{"type": "number", "minimum": float64(r.min), "maximum": float64(r.max)}}
}

func oneOf(words []string) shape {
	known := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	return shape{strings.Join(known, ", "), node{"type": "string", "enum": known}}
}

func trueFalse() shape { return shape{"true, false", node{"type": "boolean"}} }

func statusList() shape {
	return shape{"statuses of " + rangeStatus.String(), node{
		"type": "array", "maxItems": maxStatuses, "uniqueItems": true,
		"items": node{"type": "integer", "minimum": rangeStatus.min, "maximum": rangeStatus.max},
	}}
}
