"""Read data sets on the Hugging Face Hub, and keep what was fetched.

grammar     lines and lists of lines
hub         a line as a source of rows
download    requests to a hub, files written aside, and what to say when they fail
card        what the README says about files and columns
layout      which files make up a configuration and a split
reading     rows and marks, shard by shard
cache       files that were fetched, within a limit
"""
