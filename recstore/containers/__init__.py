"""RecordList, RecordDict, their views and fields, and the ways out of them."""
