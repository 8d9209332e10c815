"""Jobs on object stores whose answers are cut, delayed, refused or changed on their way.

Each trial does one thing through a proxy that draws faults from a seed. It must end with the result
of a run without faults, or with an error that names what failed; then the same thing, done again,
must complete. What is there in between is nothing, all, or named as a commit that waits.
"""
