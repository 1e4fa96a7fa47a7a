"""Prints what the codec in the folder makes of each vector, one JSON object a line."""
import json
import sys

sys.path.insert(0, sys.argv[1])
from chainbudget import read, read_return

with open(sys.argv[2], encoding="utf-8") as file:
    vectors = json.load(file)
for v in vectors["request"]:
    print(json.dumps({"name": v["name"], "got": read(v["baggage"], v["chainbudget"], v["max_budget"])}))
for v in vectors["response"]:
    print(json.dumps({"name": v["name"], "got": read_return(v["chainbudget_return"], v["sent_nonce"], v["leased"])}))
