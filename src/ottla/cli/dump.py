"""`ottla dump`: the batches and records of segments, as JSON lines or as kafka-dump-log prints them."""
import argparse, base64, json, sys
from ottla.arrow.to_arrow import *
from ottla.arrow.utf8 import java_utf8
from ottla.batch.decode import Decoder
from ottla.kernels import gather
from ottla.log.segment import read_windows
from ottla.storage import open_file
from ottla.region import PADDING
try:
    from ottla.format.control import parse_control
except ImportError: parse_control=None

def add_parser(subparsers, summary):
    p = subparsers.add_parser("dump", help=summary)
    p.add_argument("files", nargs="+", metavar="FILE")
    p.add_argument("--format", choices=["text","jsonl"])
    p.add_argument("--no-check-crcs", action="store_true")
    p.set_defaults(run=run)

def b64(b): return None if b is None else base64.b64encode(b).decode()

def run(args):
    bad=0
    for f in args.files:
        for line in lines(f, not args.no_check_crcs):
            line["file"]=f
            sys.stdout.write(json.dumps(line, ensure_ascii=False)+"\n")
            bad |= line["type"]=="error"
    return int(bad)

COLS=["index","offset","timestamp","sequence","key","value","headers"]
def lines(path, check):
    nb=nr=ne=0
    with open_file(path) as file:
        dec=Decoder(wanted_flags(COLS)|gather.CONTROL, check_crcs=check)
        end=0
        for w in read_windows(file):
            recs=[]; 
            chunks=list(dec.decode(w.region,w.batches)); r=dec.flush()
            if r: chunks.append(r)
            allrows={}
            for c in chunks:
                rb=records_to_arrow(c, ["position"]+COLS).to_pylist()
                for x in rb: allrows.setdefault(x["position"],[]).append(x)
            errs={}
            for b in dec.broken: errs.setdefault(b.row,[]).append(b)
            for row,b in enumerate(batches_to_arrow(w.batches, dec.payloads.opened!=0).to_pylist()):
                es=errs.get(row,[])
                if b["magic"]<2:
                    del b["lastOffsetDelta"], b["baseTimestamp"]
                nb+=1
                if not(es and es[0].violation.rule.stage=="header"):
                    yield {"type":"batch",**b}
                out=[]
                for x in allrows.get(b["position"],[]):
                    d={"type":"record","position":x["position"],**{k:x[k] for k in COLS}}
                    d["key"]=b64(d["key"]); d["value"]=b64(d["value"]); d["headers"]=[[h["key"],b64(h["value"])] for h in d["headers"]]
                    out.append((x["index"],d))
                for e in es:
                    v=e.violation
                    out.append((e.index if v.rule.stage=="record" else 1<<40,{"type":"error","position":v.position,"stage":str(v.rule.stage),"message":v.detail}))
                out.sort(key=lambda t:t[0])
                for _,o in out:
                    if o["type"]=="error": ne+=1
                    else: nr+=1
                    yield o
            end=w.stop
            if w.violation:
                ne+=1; yield {"type":"error","position":w.violation.position,"stage":str(w.violation.rule.stage),"message":w.violation.detail,"resync":w.resync}
                if w.resync: end=w.resync
        yield {"type":"end","position":end,"fileSize":file.size,"trailingBytes":file.size-end,"batches":nb,"records":nr,"errors":ne}
